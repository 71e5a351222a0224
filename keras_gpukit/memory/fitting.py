"""Finds the ways to make a step fit that ran out of memory."""

from __future__ import annotations

from dataclasses import replace

from keras_gpukit.memory.step_memory import StepMemory
from keras_gpukit.records.memory import MemoryByCause, OutOfMemory
from keras_gpukit.rules.compute.batch_size import below_failed, predicted_limit_bytes
from keras_gpukit.rules.memory.memory_options import memory_options


def what_would_fit(record: OutOfMemory, memory: StepMemory, precision: str | None) -> OutOfMemory:
    """Adds to a record the predicted memory of the step, and each option to reduce it."""
    batch_size = record.batch_size
    assert batch_size is not None
    if memory.execution == "xla" and record.shape is None and record.state.asked_bytes:
        memory.asked_in_one_block(record.state.asked_bytes, batch_size)
    prediction = memory.predict(batch_size)
    needs = prediction.high
    assert needs is not None
    limit_bytes, fitting, accumulating = _limit_bytes(record), None, None
    because: str | None = "the device's limit is not known"
    if limit_bytes is not None:
        fitting = _fitting(memory, limit_bytes, batch_size)
        accumulating = _fitting(memory, limit_bytes - memory.trainable_bytes, batch_size)
        prediction = replace(
            prediction, limit_bytes=limit_bytes, fits_batch_size=fitting and fitting[0]
        )
        because = None if fitting else "not even one example is predicted to fit"
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


def _limit_bytes(record: OutOfMemory) -> int | None:
    """Returns the device's limit, less the memory that other processes hold; None if unknown."""
    limit_bytes = record.state.limit_bytes
    if limit_bytes is None:
        return None
    return limit_bytes - sum(each.used_bytes for each in record.holders or ())


def _fitting(memory: StepMemory, limit_bytes: int, failed: int) -> tuple[int, MemoryByCause] | None:
    largest = memory.largest_batch(limit_bytes)
    if largest is None or failed == 1:
        return None
    largest = min(largest, below_failed(failed))
    needs = memory.predict(largest).high
    return None if needs is None else (largest, needs)
