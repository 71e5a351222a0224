"""Private TensorFlow functions for reading the graph of a step, and for restoring a model.

All exist in TensorFlow 2.21 with Keras 3.15. Without
`tensorflow.python.grappler.tf_optimizer.OptimizeGraph`, the graph is read as it was traced, so
fused operations count twice. Without `tensorflow.python.framework.op_def_registry.get`, no
prediction is possible. Without the traces of a step, a run shows only the variables that its model
refers to.

The global state that belongs to no model: `context._rng`, the source of seeds for operations
without one after `tf.random.set_seed`; `stateful_random_ops.global_generator`; and
`data_structures.ListWrapper`, in which TensorFlow keeps lists. If a name is gone, its state is not
restored: a run that draws from it continues with other numbers.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from keras_gpukit.sensors.tf_private import traces_of


def optimize(graph_def: Any, fetches: Sequence[str]) -> Any:
    """Returns a graph as TensorFlow would run it, with operations fused, folded and removed.

    Returns the graph unchanged if the optimizer is not available or fails.
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
    except Exception:  # the optimizer is not available, or rejects the graph
        return graph_def


def _leave_batch_open(node: Any) -> None:
    """Makes the batch size of an argument unknown; the optimizer would allocate such a tensor."""
    if node.op == "Placeholder" and node.attr["shape"].shape.dim:
        node.attr["shape"].shape.dim[0].size = -1


def op_def(operation_type: str) -> Any | None:
    """Returns the `OpDef` proto of an operation type; None if TensorFlow does not know the type."""
    from tensorflow.python.framework import op_def_registry

    return op_def_registry.get(operation_type)


def used_variables(step_function: Any) -> tuple[Any, ...]:
    """Returns the `tf.Variable`s that the traces of a model's step function use; () if unknown."""
    traces = traces_of(step_function)
    return tuple({id(each): each for trace in traces for each in trace.graph.variables}.values())


def eager_seeds() -> random.Random | None:
    """Returns the generator of seeds for operations without one; None before `set_seed`."""
    try:
        from tensorflow.python.eager import context
    except ImportError:
        return None
    return getattr(context.context(), "_rng", None)


def global_generator() -> Any | None:
    """Returns the shared `tf.random.Generator`; None if none was requested."""
    try:
        from tensorflow.python.ops import stateful_random_ops
    except ImportError:
        return None
    return getattr(stateful_random_ops, "global_generator", None)


def keeps_its_items_inside(thing: Any) -> bool:
    """Whether an object is a TensorFlow list that keeps its items in one of its attributes."""
    try:
        from tensorflow.python.trackable.data_structures import ListWrapper
    except ImportError:
        return False
    return isinstance(thing, ListWrapper)
