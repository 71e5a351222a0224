"""Finds how often a loop runs, if its condition compares counters with known limits."""

from __future__ import annotations

from math import ceil
from typing import Any

from keras_gpukit.flops.shapes import LOOPS, called


def trips_of(loop: Any, graph: Any) -> int | None:
    """Returns the number of iterations of a loop; None if it depends on the data."""
    condition, body = called(graph, loop, "cond"), called(graph, loop, "body")
    places = {each.name: place for place, each in enumerate(condition.inputs)}

    def limit(tensor: Any) -> int | None:
        operation = tensor.op
        if operation.type == "Identity":
            return limit(operation.inputs[0])
        if operation.type == "LogicalAnd":
            limits = [limit(each) for each in operation.inputs]
            return None if None in limits else min(each for each in limits if each is not None)
        if operation.type != "Less" or operation.inputs[0].name not in places:
            return None
        counter = places[operation.inputs[0].name]
        end_place = places.get(operation.inputs[1].name)
        start = _value(loop.inputs[counter], graph)
        end = _value(operation.inputs[1] if end_place is None else loop.inputs[end_place], graph)
        step = _step(body.outputs[counter], body.inputs[counter])
        if start is None or end is None or not step:
            return None
        return max(ceil((end - start) / step), 0)

    return limit(condition.outputs[0])


def _value(tensor: Any, graph: Any) -> int | None:
    import tensorflow as tf

    value = tf.get_static_value(tensor)
    if value is None and tensor.op.type == "Max":
        value = tf.get_static_value(tensor.op.inputs[0])
    elif value is None and tensor.op.type in LOOPS and tensor.value_index == 0:
        return trips_of(tensor.op, graph)  # a loop counts its iterations for that of its gradient
    return None if value is None else int(value.max())


def _step(tensor: Any, counter: Any) -> int | None:
    """Returns what an iteration adds to a counter; None if it does something else."""
    import tensorflow as tf

    while tensor.op.type == "Identity":
        tensor = tensor.op.inputs[0]
    if tensor.op.type not in ("Add", "AddV2"):
        return None
    added = [each for each in tensor.op.inputs if each.name != counter.name]
    value = tf.get_static_value(added[0]) if len(added) == 1 else None
    return None if value is None else int(value)
