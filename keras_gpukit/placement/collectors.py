"""Collects where the operations of a step run: from its graphs, or from each one as it runs."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from keras_gpukit.placement import graphs, tf_private
from keras_gpukit.placement.copies import (
    Shapes,
    infer_shapes,
    python_bytes,
    python_inputs,
    read_sent,
    sent_outputs,
)
from keras_gpukit.placement.names import requested_device, short_device
from keras_gpukit.placement.registry import dtype_name
from keras_gpukit.records.operations import (
    Operation,
    OperationKind,
    StepOperations,
)

BatchSize = Callable[[], int | None]


class PlacementUnknownError(Exception):
    """Placement cannot be read; the message says why. `PlacementProbe` always catches it."""


class GraphCollector:
    """Reads the operations of a `tf.function` step from the graphs that the runtime makes of it."""

    def start(self) -> None:
        """Starts collecting the graphs of functions that run for the first time."""
        if tf_private.is_summary_trace_on():
            raise PlacementUnknownError(
                "tf.summary.trace_on collects the graphs of this step, and reading them would take "
                "them away from it"
            )
        tf_private.enable_graph_collection()

    def stop(self, batch_size: BatchSize) -> StepOperations | None:
        """Stops, and returns the operations that ran; None if the step was built before `start`."""
        step = graphs.find_step(tf_private.take_collected_graphs())
        if step is None:
            return None
        if not step.partition_graphs:
            # The runtime has one collection for all threads. Any operation that ends in another
            # thread takes the graphs collected so far (seen on TensorFlow 2.21).
            raise PlacementUnknownError(
                "another thread ran operations of TensorFlow during the first step, and got a part "
                "of its graphs: have threads that load data use NumPy, or start them later"
            )
        ran = graphs.read_step(step)
        return _with_sizes(ran, step, batch_size())


class EagerCollector:
    """Collects the operations of an eager step while its thread runs them."""

    def __init__(self) -> None:
        self._operations: list[Operation] = []
        self._trouble: Exception | None = None

    def start(self) -> None:
        """Starts watching the operations of this thread."""
        tf_private.add_op_callback(self._see)

    def stop(self, batch_size: BatchSize) -> StepOperations:
        """Stops, and returns the operations that ran; `batch_size` is not used."""
        tf_private.remove_op_callback(self._see)
        if self._trouble:
            raise self._trouble
        return StepOperations(tuple(self._operations), transfers=None, mechanism="eager")

    def _see(
        self,
        type_: str | bytes,
        inputs: Any,
        attributes: Any,
        outputs: Any,
        op_name: str | None = None,
        graph: Any = None,
    ) -> None:
        if graph is not None or type_ in graphs.BOOKKEEPING:  # with a graph, it is traced, not run
            return
        try:
            self._operations.append(_operation(type_, inputs, attributes, outputs))
        except Exception as trouble:  # the step must continue
            self._trouble = trouble


def _with_sizes(ran: StepOperations, step: Any, batch_size: int | None) -> StepOperations:
    """Adds the tensors that are copied, and the bytes that Python functions take and return."""
    graph, partitions = step.post_optimization_graph, step.partition_graphs
    outputs = sent_outputs(partitions) | python_inputs(graph)
    shapes: Shapes = {}
    if outputs:
        # If shapes are unknown, the copies are still known, but not their sizes.
        with contextlib.suppress(Exception):
            shapes = infer_shapes(graph, outputs, batch_size)
    return replace(
        ran,
        sent=read_sent(partitions, shapes),
        python_bytes=python_bytes(graph, shapes, batch_size),
    )


def _operation(type_: str | bytes, inputs: Any, attributes: Any, outputs: Any) -> Operation:
    name = type_.decode() if isinstance(type_, bytes) else type_  # function names are bytes
    name = "PartitionedCall" if tf_private.is_function(name) else name
    # An operation without outputs, such as an assignment, runs on the device of its variable.
    device = next((tensor.device for tensor in (*outputs, *inputs)), "")
    asked = requested_device(tf_private.requested_device())
    kind = OperationKind(name, tuple(_types(name, attributes)), asked)
    return Operation(kind, tf_private.name_scope() + name, short_device(device))


def _types(type_: str, attributes: Any) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yields the attributes that are dtypes; the runtime gives both dtypes and numbers as int."""
    values = dict(zip(attributes[::2], attributes[1::2], strict=True))
    definition = tf_private.op_def(type_)
    for attribute in definition.attr if definition else ():
        value = values.get(attribute.name)
        if attribute.type == "type" and value is not None:
            yield attribute.name, (_dtype(value),)
        elif attribute.type == "list(type)" and isinstance(value, list | tuple):
            yield attribute.name, tuple(_dtype(item) for item in value)


def _dtype(value: Any) -> str:
    # A number, a tf.DType, or an AttrValue proto, depending on how the operation was run.
    return dtype_name(getattr(value, "as_datatype_enum", getattr(value, "type", value)))
