"""Explains an out-of-memory error: the failed request, the available memory, and what would fit."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from keras_gpukit.layer_names import is_backward, layer_names, layer_of
from keras_gpukit.memory import allocator_log
from keras_gpukit.memory.failed_layer import failed_layer
from keras_gpukit.memory.fitting import what_would_fit
from keras_gpukit.memory.model_state import execution_of
from keras_gpukit.memory.oom_message import OOMMessage, read_message
from keras_gpukit.memory.step_memory import StepMemory
from keras_gpukit.records.environment import GPUInfo
from keras_gpukit.records.memory import AllocatorState, OutOfMemory
from keras_gpukit.sensors.nvml import other_holders


@dataclass(frozen=True)
class Call:
    """The call, such as `fit`, that ran out of memory.

    Attributes:
        model: The Keras model.
        spec: Specification of a batch, as a dataset's `element_spec`; None if unknown.
        batch_size: Examples per batch; None if unknown.
        step: Global step; None if unknown.
        gpus: The GPUs that TensorFlow uses.
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

    Args:
        error: The exception. No reference to it is kept.
        call: The call that raised the exception.
    """
    message = read_message(str(getattr(error, "message", error))) or OOMMessage()
    device = message.device or ("GPU:0" if call.gpus else "CPU:0")
    layer = None
    if message.operation is not None and not message.is_type:
        layer = layer_of(message.operation, layer_names(call.model))
    elif call.model.run_eagerly:
        layer = failed_layer(error)
    record = OutOfMemory(
        device=device,
        operation=message.operation,
        layer=layer,
        backward=bool(message.operation and is_backward(message.operation)),
        shape=message.shape,
        dtype=message.dtype,
        state=_state(message, device, call),
        execution=execution_of(call.model),
        step=call.step,
        batch_size=call.batch_size,
        holders=_holders(device, call.gpus),
    )
    return _with_options(record, message, call)


def _state(message: OOMMessage, device: str, call: Call) -> AllocatorState:
    limit_bytes, peak = call.limit_bytes.get(device), call.peak_bytes.get(device)
    logged = allocator_log.read_state(allocator_log.read_log())
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


def _holders(device: str, gpus: tuple[GPUInfo, ...]) -> Any:
    kind, _, number = device.partition(":")
    found = [gpu for gpu in gpus if kind == "GPU" and int(number) in (gpu.logical or ())]
    return other_holders(found[0]) if found else None


def _with_options(record: OutOfMemory, message: OOMMessage, call: Call) -> OutOfMemory:
    replicas = getattr(call.model.distribute_strategy, "num_replicas_in_sync", 1)
    if replicas > 1:
        return replace(
            record, options_unknown_because="steps on several replicas are not predicted"
        )
    if call.spec is None:
        return replace(record, options_unknown_because="the structure of a batch is unknown")
    model = call.model
    try:
        memory = StepMemory(model, call.spec, call.other_bytes.get(record.device, 0))
    except Exception as error:
        because = f"the step could not be traced ({type(error).__name__})"
        return replace(record, options_unknown_because=because)
    batch_size = call.batch_size or memory.batch_of(message.operation, message.shape)
    if record.layer is None and message.shape is not None and batch_size is not None:
        kind = message.operation if message.is_type else None
        found = memory.layers_with(kind, message.shape, batch_size)
        record = replace(record, layer=found)
    if batch_size is None:
        return replace(record, options_unknown_because="the batch size is not known")
    return what_would_fit(replace(record, batch_size=batch_size), memory, model.dtype_policy.name)
