"""Explains an out-of-memory error: the failed request, the available memory, and what would fit."""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from traceback import walk_tb
from types import FrameType
from typing import Any

from keras_gpukit.frameworks.older_keras import calls_are_numbered
from keras_gpukit.layer_names import is_backward, layer_names, layers_in
from keras_gpukit.memory.model_state import execution_of
from keras_gpukit.memory.oom_message import OOMMessage, read_log, read_message, read_state
from keras_gpukit.memory.step_memory import StepMemory
from keras_gpukit.records.environment import GPUInfo
from keras_gpukit.records.memory import AllocatorState, MemoryByCause, OutOfMemory
from keras_gpukit.rules.compute.batch_size import below_failed, predicted_limit_bytes
from keras_gpukit.rules.whole_run.memory_ran_out import NOT_ONE_FITS, memory_options
from keras_gpukit.sensors.nvml import other_holders


@dataclass(frozen=True)
class Call:
    """The call, such as `fit`, that ran out of memory.

    Attributes:
        spec: Specification of a batch, as a dataset's `element_spec`.
        other_bytes: Bytes in use when the call started in addition to models and optimizers, per
            device. A missing device counts as 0.
        peak_bytes: Peak of the bytes in use during the call, per device; once the first step has
            ended, that of later steps.
        limit_bytes: Maximum that TensorFlow may take, per device; None if unknown.
    """

    model: Any
    spec: Any
    batch_size: int | None
    step: int | None
    gpus: tuple[GPUInfo, ...]
    other_bytes: dict[str, int]
    peak_bytes: dict[str, int]
    limit_bytes: dict[str, int | None]


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an exception reports that a device ran out of memory."""
    import tensorflow as tf

    kinds = (tf.errors.ResourceExhaustedError, tf.errors.InvalidArgumentError)
    return isinstance(error, kinds) and read_message(error.message) is not None


def explain(error: BaseException, call: Call) -> OutOfMemory:
    """Returns a record of why memory ran out and what would fit.

    The step is traced again to predict what would fit. This takes as long as the first tracing.
    """
    message = read_message(str(getattr(error, "message", error))) or OOMMessage()
    device = message.device or ("GPU:0" if call.gpus else "CPU:0")
    layer = None
    if message.operation is not None and not message.is_type:
        layer = layer_names(call.model, numbered=calls_are_numbered()).of(message.operation)
    elif call.model.run_eagerly:
        layer = _failed_layer(error)
    gpu = _gpu(device, call.gpus)
    record = OutOfMemory(
        device=device,
        operation=message.operation,
        layer=layer,
        layer_class=_class_of(layer, call.model),
        backward=bool(message.operation and is_backward(message.operation)),
        shape=message.shape,
        dtype=message.dtype,
        state=_state(message, device, call),
        execution=execution_of(call.model),
        step=call.step,
        batch_size=call.batch_size,
        holders=None if gpu is None else other_holders(gpu),
        device_bytes=None if gpu is None else _device_bytes(device, gpu, call),
    )
    return _with_options(record, call)


def _class_of(layer: str | None, model: Any) -> str | None:
    """Returns the class of a layer that is named as by `LayerNames`; None if it was not found."""
    named = layer and layer.rpartition("/")[2]
    found = (type(candidate).__name__ for candidate in layers_in(model) if candidate.name == named)
    return next(found, None)


def _state(message: OOMMessage, device: str, call: Call) -> AllocatorState:
    limit_bytes, peak = call.limit_bytes.get(device), call.peak_bytes.get(device)
    logged = read_state(read_log())
    if logged is not None and _is_same(message.asked_bytes, logged.asked_bytes):
        return replace(logged, asked_bytes=message.asked_bytes or logged.asked_bytes)
    return AllocatorState(
        asked_bytes=message.asked_bytes,
        limit_bytes=limit_bytes,
        in_use_bytes=peak,
        in_use_is_peak=True,
        free_bytes=None if limit_bytes is None or peak is None else max(limit_bytes - peak, 0),
    )


def _is_same(asked_bytes: int | None, logged_bytes: int | None) -> bool:
    """Whether the report in the log belongs to this error; the two round sizes differently."""
    if asked_bytes is None or logged_bytes is None:
        return asked_bytes is None
    return abs(asked_bytes - logged_bytes) <= 256 + asked_bytes / 1000


def _gpu(device: str, gpus: tuple[GPUInfo, ...]) -> GPUInfo | None:
    kind, _, number = device.partition(":")
    found = (gpu for gpu in gpus if kind == "GPU" and int(number) in (gpu.logical or ()))
    return next(found, None)


def _device_bytes(device: str, gpu: GPUInfo, call: Call) -> int | None:
    names = (f"GPU:{number}" for number in gpu.logical or ())
    others = [call.limit_bytes.get(name) for name in names if name != device]
    if gpu.memory_bytes is None or None in others:
        return None
    return gpu.memory_bytes - sum(filter(None, others))


def _with_options(record: OutOfMemory, call: Call) -> OutOfMemory:
    model, batch_size = call.model, call.batch_size
    if getattr(model.distribute_strategy, "num_replicas_in_sync", 1) > 1:
        because = "steps on several replicas are not predicted"
    elif call.spec is None:
        because = "the structure of a batch is unknown"
    elif batch_size is None:
        because = "the batch size is not known"
    else:
        try:
            memory = StepMemory(model, call.spec, call.other_bytes.get(record.device, 0))
        except Exception as error:
            because = f"the step could not be traced ({type(error).__name__})"
        else:
            return _what_would_fit(record, memory, batch_size, model.dtype_policy.name)
    return replace(record, options_unknown_because=because)


def _what_would_fit(
    record: OutOfMemory, memory: StepMemory, batch_size: int, precision: str | None
) -> OutOfMemory:
    """Adds to a record the predicted memory of the step, and each option to reduce it."""
    if memory.execution == "xla" and record.shape is None and record.state.asked_bytes:
        memory.asked_in_one_block(record.state.asked_bytes, batch_size)
    prediction = memory.predict(batch_size)
    needs = prediction.high
    assert needs is not None
    limit_bytes, fitting, accumulating = record.room_bytes, None, None
    because: str | None = "the device's limit is not known"
    if limit_bytes is not None:
        fitting = _fitting(memory, limit_bytes, batch_size)
        accumulating = _fitting(memory, limit_bytes - memory.trainable_bytes, batch_size)
        prediction = replace(
            prediction, limit_bytes=limit_bytes, fits_batch_size=fitting and fitting[0]
        )
        because = None if fitting else NOT_ONE_FITS
    return replace(
        record,
        prediction=prediction,
        options=memory_options(
            needs,
            batch_size=batch_size,
            fitting=fitting,
            accumulating=accumulating,
            trainable_bytes=memory.trainable_bytes,
            precision=precision,
            allowed_bytes=None if limit_bytes is None else predicted_limit_bytes(limit_bytes),
        ),
        options_unknown_because=because,
    )


def _fitting(memory: StepMemory, limit_bytes: int, failed: int) -> tuple[int, MemoryByCause] | None:
    largest = memory.largest_batch(limit_bytes)
    if largest is None or failed == 1:
        return None
    largest = min(largest, below_failed(failed))
    needs = memory.predict(largest).high
    return None if needs is None else (largest, needs)


def _failed_layer(error: BaseException) -> str | None:
    """Returns the name of the innermost layer in the traceback; None if it contains no layer.

    Keras raises its own exception in place of the original one. The original stays available as
    the context of the new one, so both are searched. No reference to either is kept.
    """
    import keras

    found: str | None = None
    seen: set[int] = set()
    exception: BaseException | None = error
    while exception is not None and id(exception) not in seen:
        seen.add(id(exception))
        for frame, _ in walk_tb(exception.__traceback__):
            found = _layer_of_frame(frame, keras.layers.Layer) or found
        # The older exception: its frames are further within.
        exception = exception.__cause__ or exception.__context__
    return found


def _layer_of_frame(frame: FrameType, kind: Any) -> str | None:
    if frame.f_code.co_name not in ("call", "__call__"):
        return None
    values = frame.f_locals
    owner = values.get("self")
    name = owner.name if isinstance(owner, kind) else None
    if sys.version_info < (3, 13):
        values.clear()  # before Python 3.13, the frame keeps this copy alive
    return name
