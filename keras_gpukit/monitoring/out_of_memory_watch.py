"""Explains why a call ran out of memory, in a note on the exception that ends it."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from keras_gpukit.errors import add_note
from keras_gpukit.input.pipelines.places import place
from keras_gpukit.input.wait.calls import ExampleCounter
from keras_gpukit.memory.model_state import held_between_steps
from keras_gpukit.memory.out_of_memory import Call, explain, is_out_of_memory
from keras_gpukit.monitoring.call_errors import call_within, line_within_step, role_within_step
from keras_gpukit.monitoring.call_frame import batch_of, examples_of, open_shapes
from keras_gpukit.monitoring.call_steps import CallSteps
from keras_gpukit.records.environment import GPUInfo
from keras_gpukit.records.memory import MemoryPart, OutOfMemory
from keras_gpukit.reports.memory import note
from keras_gpukit.sensors.allocator import AllocatorSensor

_PARTS: dict[str | None, MemoryPart] = {
    "fit": "training",
    "evaluate": "evaluation",
    "predict": "prediction",
}
# Keras opens a name scope for all losses of a model and one for each, but none for metrics.
_LOSS = re.compile(r"(?:^|/)compile_loss(?:_\d+)?/(\w+)/")


class OutOfMemoryWatch:
    """Explains the exception that ends a call, if it is an out-of-memory error.

    Attributes:
        other_bytes: Bytes in use when the call began in addition to models and optimizers, per
            device.
    """

    def __init__(
        self, steps: CallSteps, gpus: tuple[GPUInfo, ...], sensor: AllocatorSensor
    ) -> None:
        self.found: OutOfMemory | None = None
        self._steps, self._gpus = steps, gpus
        self._sensor = sensor
        own_bytes = sum(held_between_steps(steps.model)) if sensor.devices else 0
        self.other_bytes = {
            reading.device: max(reading.current_bytes - own_bytes, 0)
            for reading in sensor.read_allocators()
        }
        steps.errors.add_action(self._poll)

    def _poll(self, error: BaseException) -> None:
        if not is_out_of_memory(error):
            return
        steps = self._steps
        readings = {reading.device: reading for reading in self._sensor.read_allocators()}
        # Memory is predicted for training steps only: a validation runs only the forward pass.
        # An epoch's callbacks may run a validation or a prediction of their own.
        trains = steps.phase == "fit" and steps.errors.source == "step"
        spec, batch_size = batch_of("fit") if trains else (None, None)
        call = Call(
            model=steps.model,
            spec=spec,
            batch_size=batch_size,
            step=steps.step,
            gpus=self._gpus,
            other_bytes=self.other_bytes,
            peak_bytes={name: reading.needed_bytes for name, reading in readings.items()},
            limit_bytes={name: reading.limit_bytes for name, reading in readings.items()},
        )
        found = replace(explain(error, call), **self._place(error))
        if found.part not in (None, "training"):
            found = replace(found, options_unknown_because=None)
        if trains:
            found = _with_sizes(found, steps, spec)
        self.found = found = _with_function(found, error)
        steps.output.write_record("out_of_memory", found)
        add_note(error, note(found))

    def _place(self, error: BaseException) -> dict[str, Any]:
        """Returns the fields of the record on the part that ran out of memory, and its batches."""
        errors, phase = self._steps.errors, self._steps.phase
        if errors.source == "callback":
            # The frames of the call that failed are gone, and with them its batches.
            called = _PARTS.get(call_within(error))
            called = None if called == "training" else called
            return {"part": called, "in_callback": True, "line": errors.line}
        within = "evaluate" if errors.source == "validation" else phase
        part = "validation" if within != phase else _PARTS[within]
        (_, batch_size), examples = batch_of(within), examples_of(within)
        if batch_size is not None and examples is not None:
            batch_size = min(batch_size, examples)
        return {
            "part": part,
            "batch_size": batch_size,
            "batches_given": examples is None,
            "training_batch_size": batch_of("fit")[1] if part == "validation" else None,
        }


def _with_sizes(record: OutOfMemory, call: CallSteps, spec: Any) -> OutOfMemory:
    """Adds to a record whether the tensor is of weights, or of a batch unlike those before."""
    model, shape, step = call.model, record.shape, call.step - call.first_step
    if shape and len(shape) > 1 and any(tuple(weight.shape) == shape for weight in model.weights):
        return replace(record, of_weights=True)
    if shape and step and open_shapes(spec):
        known = {record.batch_size, *(size for weight in model.weights for size in weight.shape)}
        return replace(record, varying_length=max(set(shape) - known, default=None))
    if not shape or record.batch_size is not None or call.epoch != 1 or not step:
        return record
    # Keras counts the examples of an epoch; the batch that failed is counted or not.
    counted = sum(float(count) for count in ExampleCounter(model).take())
    earlier = counted - shape[0] if counted > shape[0] else counted
    if not earlier or earlier % step or shape[0] < 4 * earlier / step:
        return record
    return replace(record, batch_size=shape[0], usual_batch_size=int(earlier / step))


def _with_function(record: OutOfMemory, error: BaseException) -> OutOfMemory:
    """Adds to a record the function and the line that made the operation which failed."""
    line = line_within_step(error)
    loss = _LOSS.search(record.operation or "")
    role = "loss" if loss else role_within_step(error)
    return replace(
        record,
        role=role,
        function=(line and line.function) or (loss and loss[1]),
        line=place(line.file, line.line) if line else record.line,
    )
