"""The shapes of tensors in a graph, by TensorFlow's own inference."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from keras_gpukit.placement.copies import Output, Shapes

# They give a batch, whose size the graph leaves open where the last batch may be smaller.
_GIVES_BATCH = ("IteratorGetNext", "OptionalGetValue")


def infer_shapes(graph: Any, outputs: Collection[Output], batch_size: int | None) -> Shapes:
    """Returns the shapes of outputs in a graph; None for one that is not known.

    Args:
        graph: A `GraphDef`, which is changed.
        outputs: Of which nodes.
        batch_size: Examples in the batch of one device; None where that is unknown.
    """
    import tensorflow as tf

    del graph.library.function[:]  # calls say by themselves what they return, if anything does
    for node in graph.node:
        node.attr.pop("_class", None)  # it may name nodes that the optimizer removed
        if node.op in _GIVES_BATCH and batch_size is not None:
            _fill_in(node, batch_size)
    shapes: dict[Output, tuple[int, ...] | None] = {}
    with tf.Graph().as_default() as imported:
        tf.graph_util.import_graph_def(graph, name="")
        for name, index in outputs:
            shape = imported.get_operation_by_name(name).outputs[index].shape
            shapes[name, index] = tuple(shape) if shape.is_fully_defined() else None
    return shapes


def _fill_in(node: Any, batch_size: int) -> None:
    for shape in node.attr["output_shapes"].list.shape:
        if shape.dim and shape.dim[0].size == -1:
            shape.dim[0].size = batch_size
