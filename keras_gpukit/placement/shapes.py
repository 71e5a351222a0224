"""Finds the shapes of tensors in a graph with TensorFlow's own shape inference."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

from keras_gpukit.placement.copies import Output, Shapes

# Operations that return a batch. Its size is open in the graph if the last batch may be smaller.
_GIVES_BATCH = ("IteratorGetNext", "OptionalGetValue")


def infer_shapes(graph: Any, outputs: Collection[Output], batch_size: int | None) -> Shapes:
    """Returns the shapes of node outputs in a graph; None for an unknown shape.

    Args:
        graph: A `GraphDef`, which is modified.
        outputs: The node outputs whose shapes to find.
        batch_size: Examples in the batch of one device; None if unknown.
    """
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
