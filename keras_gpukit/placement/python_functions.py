"""Sizes of the tensors that a step's Python functions take and return."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from math import prod
from typing import Any

from keras_gpukit.placement.copies import Output, Shapes, output_of
from keras_gpukit.records.operations import PYTHON_OPERATIONS


def python_inputs(graph: Any) -> frozenset[Output]:
    """Returns the node outputs that Python functions take."""
    return frozenset(output for node in _calls(graph) for output in _inputs(node))


def python_bytes(
    graph: Any,
    shapes: Shapes,
    batch_size: int | None,
    dtype_bytes: Callable[[int], int | None],
) -> dict[str, int]:
    """Returns the bytes that Python functions take and return, by operation type.

    TensorFlow does not know the shape of what they return, unless a `tf.ensure_shape` follows. An
    open first dimension there counts as the batch. Tensors of unknown size are left out, and so are
    types without any of known size.

    Args:
        graph: A `GraphDef` of the step.
        shapes: Shapes of the node outputs that the functions take; None for an unknown shape.
        batch_size: Examples in the batch of one device; None if unknown.
        dtype_bytes: Returns the bytes per element of a dtype; None if elements differ in size.
    """
    ensured = {
        output_of(node.input[0]): _shape(node, batch_size)
        for node in graph.node
        if node.op == "EnsureShape"
    }
    sums: Counter[str] = Counter()
    for node in _calls(graph):
        taken = zip((shapes.get(each) for each in _inputs(node)), _dtypes(node, "Tin"), strict=True)
        returned = (
            (ensured.get((node.name, index)), dtype)
            for index, dtype in enumerate(_dtypes(node, "Tout"))
        )
        for shape, dtype in (*taken, *returned):
            item_bytes = dtype_bytes(dtype)
            if shape is not None and item_bytes is not None:
                sums[node.op] += prod(shape) * item_bytes
    return dict(sums)


def _calls(graph: Any) -> list[Any]:
    return [node for node in graph.node if node.op in PYTHON_OPERATIONS]


def _inputs(node: Any) -> list[Output]:
    return [output_of(each) for each in node.input if not each.startswith("^")]


def _dtypes(node: Any, name: str) -> list[int]:
    return list(node.attr[name].list.type)


def _shape(node: Any, batch_size: int | None) -> tuple[int, ...] | None:
    shape = node.attr["shape"].shape
    sizes = [dim.size for dim in shape.dim]
    if sizes and sizes[0] == -1 and batch_size is not None:
        sizes[0] = batch_size
    return None if shape.unknown_rank or -1 in sizes else tuple(sizes)
