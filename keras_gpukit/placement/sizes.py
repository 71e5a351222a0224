"""Sizes of tensors in a graph: by TensorFlow's shape inference, and of Python functions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator
from math import prod
from typing import Any

from keras_gpukit.placement.copies import Output, Shapes, output_of
from keras_gpukit.placement.registry import dtype_bytes
from keras_gpukit.records.operations import PYTHON_OPERATIONS

# Operations that return a batch. Its size is open in the graph if the last batch may be smaller.
_GIVES_BATCH = ("IteratorGetNext", "OptionalGetValue")


def infer_shapes(graph: Any, outputs: Collection[Output], batch_size: int | None) -> Shapes:
    """Returns the shapes of node outputs in a graph; None for an unknown shape."""
    import tensorflow as tf

    needed = tf.compat.v1.GraphDef(versions=graph.versions)
    for node in _that_make({name for name, _ in outputs}, graph):
        node.attr.pop("_class", None)  # may name nodes that are left out
        if node.op in _GIVES_BATCH and batch_size is not None:
            _fill_in(node, batch_size)
        needed.node.append(node)
    shapes: dict[Output, tuple[int, ...] | None] = {}
    with tf.Graph().as_default() as imported:
        tf.graph_util.import_graph_def(needed, name="")
        for name, index in outputs:
            shape = imported.get_operation_by_name(name).outputs[index].shape
            shapes[name, index] = tuple(shape) if shape.is_fully_defined() else None
    return shapes


def _that_make(names: set[str], graph: Any) -> Iterator[Any]:
    """Yields the nodes with these names, and all nodes whose tensors they depend on."""
    by_name = {node.name: node for node in graph.node}
    seen, left = set(names), list(names)
    while left:
        node = by_name[left.pop()]
        tensors = [each for each in node.input if not each.startswith("^")]
        del node.input[:]
        node.input.extend(tensors)
        sources = {each.partition(":")[0] for each in tensors} - seen
        seen |= sources
        left += sources
        yield node


def _fill_in(node: Any, batch_size: int) -> None:
    for shape in node.attr["output_shapes"].list.shape:
        if shape.dim and shape.dim[0].size == -1:
            shape.dim[0].size = batch_size


def python_inputs(graph: Any) -> frozenset[Output]:
    """Returns the node outputs that Python functions take."""
    return frozenset(output for node in _calls(graph) for output in _inputs(node))


def python_bytes(
    graph: Any,
    shapes: Shapes,
    batch_size: int | None,
) -> dict[str, int]:
    """Returns the bytes that Python functions take and return, by operation type.

    TensorFlow does not know the shape of what they return, unless a `tf.ensure_shape` follows. An
    open first dimension there counts as the batch. Tensors of unknown size are left out, and so are
    types without any of known size.
    """
    ensured = {
        output_of(node.input[0]): _ensured(node, batch_size)
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


def _ensured(node: Any, batch_size: int | None) -> tuple[int, ...] | None:
    shape = node.attr["shape"].shape
    sizes = [dim.size for dim in shape.dim]
    if sizes and sizes[0] == -1 and batch_size is not None:
        sizes[0] = batch_size
    return None if shape.unknown_rank or -1 in sizes else tuple(sizes)
