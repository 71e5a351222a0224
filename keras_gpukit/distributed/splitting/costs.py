"""Measures the memory that each layer needs and passes on, and cuts the layers into stages."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

from keras_gpukit.distributed.splitting import Unit, mark_in, marked, rebuild

# Their outputs are not activations: weights are counted separately, and constants are small.
_NO_ACTIVATIONS = frozenset({"ReadVariableOp", "Const", "Placeholder", "VarHandleOp"})


@dataclass(frozen=True)
class Edge:
    """A tensor that one unit produces and another uses."""

    tensor: str
    source: int
    target: int
    size_bytes: int | None


@dataclass(frozen=True)
class Activations:
    """The activations that a training step keeps, and the tensors that units pass on."""

    kept_bytes: tuple[int, ...]
    """For each unit, bytes of its forward pass that the backward pass uses."""
    incomplete: frozenset[int]
    """Indices of units that keep tensors whose size is unknown before training."""
    edges: tuple[Edge, ...]


def weight_bytes(unit: Unit) -> int:
    """Returns the bytes of a unit's variables."""
    return sum(map(_variable_bytes, unit.layer.variables))


def slot_bytes(unit: Unit, optimizer: Any) -> int:
    """Returns the bytes that an optimizer adds for a unit's trainable variables.

    A fresh one of the same configuration is built on stand-ins for them in host memory.
    """
    import keras
    import tensorflow as tf

    with tf.device("/CPU:0"):
        stand_ins = [
            keras.Variable(keras.ops.zeros(variable.shape, variable.dtype), dtype=variable.dtype)
            for variable in unit.layer.trainable_variables
        ]
        fresh = type(optimizer).from_config(optimizer.get_config())
        before = sum(map(_variable_bytes, fresh.variables))
        if stand_ins:
            fresh.build(stand_ins)
        return sum(map(_variable_bytes, fresh.variables)) - before


def trace_activations(model: Any, units: int, inputs: Any) -> Activations:
    """Returns the activations that one training step keeps, read from its graph.

    Nothing is computed. The graph is traced from a copy in host memory, so the model stays
    untouched. It has a forward pass, and the gradient of the sum of all outputs. The tensors that
    the backward pass takes from the forward pass are those that must be kept.
    """
    import tensorflow as tf

    with tf.device("/CPU:0"):
        copy = rebuild(model, marked)
    readings: list[Activations] = []

    def step(inputs: Any) -> None:
        with tf.GradientTape() as tape:
            outputs = copy(inputs, training=True)
            total = tf.add_n(
                [tf.reduce_sum(tf.cast(output, "float32")) for output in tf.nest.flatten(outputs)]
            )
        graph = tf.compat.v1.get_default_graph()
        forward = graph.get_operations()
        tape.gradient(total, [variable.value for variable in copy.trainable_variables])
        readings.append(_read(forward, graph.get_operations()[len(forward) :], units))

    tf.function(step, autograph=False).get_concrete_function(inputs)
    return readings[0]


def _read(forward: Sequence[Any], backward: Sequence[Any], units: int) -> Activations:
    """Returns the activations and edges in a graph, given its forward and backward operations."""
    unit_of: dict[Any, int] = {}
    edges: dict[tuple[str, int], Edge] = {}
    for operation in forward:
        makers = [unit_of[tensor.op] for tensor in operation.inputs if tensor.op in unit_of]
        unit = mark_in(operation.name)
        if unit is None:  # an operation between layers, such as `x + y`, goes with the later one
            if not makers:
                continue
            unit = max(makers)
        unit_of[operation] = unit
        for tensor in operation.inputs:
            source = unit_of.get(tensor.op)
            if source is not None and source != unit:
                edge = Edge(tensor.name, source, unit, _tensor_bytes(tensor))
                edges[edge.tensor, unit] = edge
    kept: dict[str, tuple[int, int | None]] = {}
    for operation in backward:
        for tensor in operation.inputs:
            if tensor.op in unit_of and tensor.op.type not in _NO_ACTIVATIONS:
                kept[tensor.name] = (unit_of[tensor.op], _tensor_bytes(tensor))
    sizes = [0] * units
    for unit, size in kept.values():
        sizes[unit] += size or 0
    return Activations(
        kept_bytes=tuple(sizes),
        incomplete=frozenset(unit for unit, size in kept.values() if size is None),
        edges=tuple(edges.values()),
    )


def bytes_at_cuts(edges: Sequence[Edge], units: int) -> list[int]:
    """Returns, for each unit, the bytes that would pass through a cut right before it."""
    passing = [0] * (units + 1)
    furthest: dict[tuple[str, int], Edge] = {}
    for edge in edges:
        known = furthest.get((edge.tensor, edge.source))
        if known is None or known.target < edge.target:
            furthest[edge.tensor, edge.source] = edge
    for edge in furthest.values():
        for place in range(edge.source + 1, edge.target + 1):
            passing[place] += edge.size_bytes or 0
    return passing[:units]


def cut(costs: Sequence[int], stages: int, bytes_at: Sequence[int]) -> tuple[int, ...]:
    """Returns the index of the unit that starts each stage after the first.

    The largest stage is as small as possible. A stage needs what its units need (`costs`, in bytes)
    and the tensors that it gets through the cut before it (`bytes_at`): a cut inside a residual
    block sends two, a cut between blocks sends one.
    """
    sums = [0, *accumulate(costs)]
    # For the first `end` units: the size of the largest stage, and the starts of the stages.
    best: list[tuple[float, tuple[int, ...]]] = [(0, ()), *[(math.inf, ())] * len(costs)]
    for _ in range(stages):
        divided: list[tuple[float, tuple[int, ...]]] = [(math.inf, ())]
        for end in range(1, len(sums)):
            sizes = [
                max(best[start][0], sums[end] - sums[start] + bytes_at[start])
                for start in range(end)
            ]
            start = sizes.index(min(sizes))
            divided.append((sizes[start], (*best[start][1], start)))
        best = divided
    return best[-1][1][1:]


def _tensor_bytes(tensor: Any) -> int | None:
    if not tensor.shape.is_fully_defined() or not tensor.dtype.size:
        return None
    return int(tensor.shape.num_elements()) * int(tensor.dtype.size)


def _variable_bytes(variable: Any) -> int:
    import tensorflow as tf

    elements: int = math.prod(variable.shape)
    return elements * int(tf.as_dtype(variable.dtype).size)
