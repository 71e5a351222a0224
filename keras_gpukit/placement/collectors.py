"""The two ways to see where a step's operations run: its graphs, or each one as it runs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from keras_gpukit.placement import graphs, tf_private
from keras_gpukit.placement.names import short_device
from keras_gpukit.placement.registry import dtype_name
from keras_gpukit.records.operations import Operation, OperationKind, StepOperations


class PlacementUnknownError(Exception):
    """Placement cannot be read here; the message says why. It never leaves this folder."""


class GraphCollector:
    """Reads a compiled step from the graphs that the runtime makes of it."""

    def start(self) -> None:
        """Starts to collect the graphs of functions that run for the first time."""
        if tf_private.is_summary_trace_on():
            raise PlacementUnknownError(
                "tf.summary.trace_on collects the graphs of this step, and reading them would take "
                "them away from it"
            )
        tf_private.enable_graph_collection()

    def stop(self) -> StepOperations | None:
        """Stops, and returns what ran; None where the step had been made before `start`."""
        step = graphs.find_step(tf_private.take_collected_graphs())
        return graphs.read_step(step, dtype_name) if step is not None else None


class EagerCollector:
    """Reads an eager step from each operation that its thread runs."""

    def __init__(self) -> None:
        self._operations: list[Operation] = []
        self._trouble: Exception | None = None

    def start(self) -> None:
        """Starts to watch this thread's operations."""
        tf_private.add_op_callback(self._see)

    def stop(self) -> StepOperations:
        """Stops, and returns what ran."""
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
        if graph is not None or type_ in graphs.BOOKKEEPING:  # in a graph it is traced, not run
            return
        try:
            self._operations.append(_operation(type_, inputs, attributes, outputs))
        except Exception as trouble:  # the step must go on
            self._trouble = trouble


def _operation(type_: str | bytes, inputs: Any, attributes: Any, outputs: Any) -> Operation:
    name = type_.decode() if isinstance(type_, bytes) else type_  # a function's name is bytes
    name = "PartitionedCall" if tf_private.is_function(name) else name
    # An operation without results, such as an assignment, runs where its variable is.
    device = next((tensor.device for tensor in (*outputs, *inputs)), "")
    kind = OperationKind(name, tuple(_types(name, attributes)), tf_private.requested_device())
    return Operation(kind, tf_private.name_scope() + name, short_device(device))


def _types(type_: str, attributes: Any) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yields the type attributes among all; the runtime gives dtypes and numbers alike as int."""
    values = dict(zip(attributes[::2], attributes[1::2], strict=True))
    definition = tf_private.op_def(type_)
    for attribute in definition.attr if definition else ():
        value = values.get(attribute.name)
        if attribute.type == "type" and value is not None:
            yield attribute.name, (_dtype(value),)
        elif attribute.type == "list(type)" and isinstance(value, list | tuple):
            yield attribute.name, tuple(_dtype(item) for item in value)


def _dtype(value: Any) -> str:
    # A number, a tf.DType, or an AttrValue proto, depending on what ran the operation.
    return dtype_name(getattr(value, "as_datatype_enum", getattr(value, "type", value)))
