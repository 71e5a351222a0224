"""TensorFlow's private names that a step's graph is read through.

Seen on TensorFlow 2.21: `tensorflow.python.grappler.tf_optimizer.OptimizeGraph`, without which the
graph is taken as it was traced, and operations that are fused count twice; and
`tensorflow.python.framework.op_def_registry.get`, without which nothing can be predicted.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def optimize(graph_def: Any, fetches: Sequence[str]) -> Any:
    """Returns a graph as TensorFlow would run it: operations fused, folded and left out.

    Args:
        graph_def: A `GraphDef` with the shapes of its outputs.
        fetches: Names of tensors and operations that are asked for.
    """
    try:
        from tensorflow.core.protobuf import config_pb2, meta_graph_pb2
        from tensorflow.python.grappler import tf_optimizer

        meta_graph = meta_graph_pb2.MetaGraphDef(graph_def=graph_def)
        for node in meta_graph.graph_def.node:
            _leave_batch_open(node)
        meta_graph.meta_info_def.meta_graph_version = "step"
        for fetch in fetches:
            meta_graph.collection_def["train_op"].node_list.value.append(fetch)
        return tf_optimizer.OptimizeGraph(config_pb2.ConfigProto(), meta_graph, verbose=False)
    except Exception:  # the optimizer is not there, or refuses the graph
        return graph_def


def _leave_batch_open(node: Any) -> None:
    """Takes the batch out of an argument's shape: the optimizer allocates a tensor of it."""
    if node.op == "Placeholder" and node.attr["shape"].shape.dim:
        node.attr["shape"].shape.dim[0].size = -1


def op_def(operation_type: str) -> Any | None:
    """Returns the `OpDef` proto of an operation; None where TensorFlow has no such operation."""
    from tensorflow.python.framework import op_def_registry

    return op_def_registry.get(operation_type)
