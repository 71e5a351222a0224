"""Infers in a traced graph the shapes that were open in the trace, and how often a loop runs."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from math import ceil
from typing import Any

from keras_gpukit.frameworks.tf_functions import CALLS, LOOPS, function_graph

Open = tuple[int | None, ...] | None
"""A shape whose sizes may be unknown; None if even their number is."""

# A list of tensors forgets the size of the batch, which its tensors have in one dimension. A loop's
# gradient takes the shapes for other operations from such lists.
_LISTS = frozenset({"TensorListGetItem", "TensorListPopBack", "TensorListStack"})
_TAKE_SHAPE = frozenset({"Reshape", "StridedSliceGrad", "BroadcastTo", "Fill"})
_MOST_PASSES = 8


def shape_of(tensor: Any) -> Open:
    """Returns the shape of a symbolic tensor."""
    return None if tensor.shape.rank is None else tuple(tensor.shape)


def is_known(shape: Open) -> bool:
    """Whether all sizes of a shape are known."""
    return shape is not None and None not in shape


def with_batch(shape: Open, batch_size: int | None) -> Open:
    """Returns a shape with its open first dimension filled in."""
    return (batch_size, *shape[1:]) if shape and shape[0] is None else shape


def called(graph: Any, operation: Any, attribute: str) -> Any:
    """Returns the graph of the function that an attribute of an operation names."""
    return function_graph(graph, operation.get_attr(attribute).name)


def inferred(graph: Any, shapes: Sequence[Open], batch_size: int | None) -> Any:
    """Returns a graph, or a copy of it, with the shapes that follow from those of its inputs."""
    own = [shape_of(tensor) for tensor in graph.inputs]
    given = [
        mine if tensor.dtype.name in ("resource", "variant") else shape
        for tensor, mine, shape in zip(graph.inputs, own, shapes, strict=True)
    ]
    if given == own:
        return graph
    known: dict[str, Sequence[Open]] = {
        tensor.op.name: [shape] for tensor, shape in zip(graph.inputs, given, strict=True)
    }
    found = _imported(graph, known, batch_size)
    # What a function returns is known only once the shapes of its arguments are.
    for _ in range(_MOST_PASSES):
        returned = dict(_returned(graph, found, batch_size))
        if not returned:
            break
        known |= returned
        found = _imported(graph, known, batch_size)
    return found


def _returned(
    graph: Any, found: Any, batch_size: int | None
) -> Iterator[tuple[str, Sequence[Open]]]:
    """Yields the calls and loops whose results get known shapes, with these."""
    for operation in found.get_operations():
        is_loop = operation.type in LOOPS
        if not is_loop and operation.type not in CALLS:
            continue
        if all(is_known(shape_of(tensor)) for tensor in operation.outputs):
            continue
        function = called(graph, operation, "body" if is_loop else "f")
        taken = [shape_of(tensor) for tensor in operation.inputs]
        inside = inferred(function, taken, batch_size)
        results = [shape_of(inside.get_tensor_by_name(tensor.name)) for tensor in function.outputs]
        if all(map(is_known, results)) and (not is_loop or results == taken):
            yield operation.name, results


def _imported(graph: Any, known: Mapping[str, Sequence[Open]], batch_size: int | None) -> Any:
    """Returns a copy of a graph in which the results of some operations have known shapes."""
    import tensorflow as tf

    definition = graph.as_graph_def(add_shapes=True)
    definition.ClearField("library")
    lists = {node.name for node in definition.node if node.op in _LISTS}
    for node in definition.node:
        node.attr.pop("_class", None)  # where it is placed, which takes long to import
        shapes = known.get(node.name)
        if shapes is not None:
            protos = [tf.TensorShape(known_shape).as_proto() for known_shape in shapes]
            for name in {"_output_shapes", "output_shapes"} & set(node.attr):
                del node.attr[name].list.shape[:]
                node.attr[name].list.shape.extend(protos)
            if "shape" in node.attr:
                node.attr["shape"].shape.CopyFrom(protos[0])
        elif batch_size is not None and (node.name in lists or _is_stored(node, lists)):
            for shape in node.attr["_output_shapes"].list.shape:
                for dimension in shape.dim:
                    dimension.size = batch_size if dimension.size == -1 else dimension.size
    with tf.Graph().as_default() as imported:
        tf.graph_util.import_graph_def(definition, name="")
    return imported


def _is_stored(node: Any, lists: Collection[str]) -> bool:
    taken = (name.partition(":")[0] for name in node.input)
    return node.op in _TAKE_SHAPE and any(name in lists for name in taken)


def trips_of(loop: Any, graph: Any) -> int | None:
    """Returns the number of iterations of a loop; None if it depends on the data."""
    condition, body = called(graph, loop, "cond"), called(graph, loop, "body")
    places = {tensor.name: place for place, tensor in enumerate(condition.inputs)}

    def limit(tensor: Any) -> int | None:
        operation = tensor.op
        if operation.type == "Identity":
            return limit(operation.inputs[0])
        if operation.type == "LogicalAnd":
            limits = [limit(operand) for operand in operation.inputs]
            return None if None in limits else min(bound for bound in limits if bound is not None)
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
    added = [operand for operand in tensor.op.inputs if operand.name != counter.name]
    value = tf.get_static_value(added[0]) if len(added) == 1 else None
    return None if value is None else int(value)
