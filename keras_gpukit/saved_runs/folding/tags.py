"""Figures of records: TensorBoard's, which nothing else derives, and those kept of readings."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

from keras_gpukit.records import names
from keras_gpukit.records.machine import GPUSample, HostSample
from keras_gpukit.records.names import RecordKind
from keras_gpukit.records.placement import NO_STEP
from keras_gpukit.records.steps import StepWindow
from keras_gpukit.reports.text import markdown, placement_markdown
from keras_gpukit.rules.comparing.pairs import setup

Tags = dict[str, tuple[str, float]]
"""Tag of each figure, and the factor that converts the figure to the tag's unit."""
STEPS: Tags = {
    "step_time_s": (names.STEP_TIME, 1e3),
    "wait_s": (names.INPUT_WAIT, 1e3),
    "stall_fraction": (names.INPUT_STALL, 1e2),
    "examples_per_s": (names.EXAMPLE_RATE, 1),
    "buffered_batches": (names.BUFFERED_BATCHES, 1),
    "between_s": (names.BETWEEN_STEPS, 1e3),
}
HOST: Tags = {
    "cpu_percent": (names.HOST_CPU, 1),
    "process_cpu_percent": (names.HOST_PROCESS_CPU, 1),
    "memory_bytes": (names.HOST_MEMORY, 1),
    "disk_read_bytes_per_s": (names.HOST_DISK_READS, 1),
}
OVERHEAD: Tags = {"step_s": (names.OVERHEAD, 1e6)}
# Figures of readings: those of a window of steps, and the upper end of its stall; of the host; of a
# GPU; of an allocator. Only the first ones of steps and GPUs have a time series.
SHOWN_OF_STEPS, SHOWN_OF_GPU = len(STEPS), 10
OF_STEPS = (*STEPS, "most_stall_fraction")
OF_HOST = tuple(HostSample.__dataclass_fields__)
OF_GPU = (*names.GPU_FIGURES, "memory_total_bytes", "throttled", "memory_others_bytes")
OF_MEMORY = (*names.MEMORY_FIGURES, "limit_bytes")
host_values, memory_values = operator.attrgetter(*OF_HOST), operator.attrgetter(*OF_MEMORY)
_gpu_values = operator.attrgetter(*(name for name in OF_GPU if name != "throttled"))


def of_gpu(index: int | str) -> Tags:
    """Returns the tags of a GPU's figures."""
    return {name: (names.gpu_tag(index, name), 1) for name in (*names.GPU_FIGURES, "throttled")}


def of_memory(device: str) -> Tags:
    """Returns the tags of an allocator's figures."""
    return {name: (names.memory_tag(device, name), 1) for name in names.MEMORY_FIGURES}


def step_figures(window: StepWindow) -> tuple[float | None, ...]:
    """Returns the figures of a window of steps, in the order of `STEPS`."""
    steps, duration_s, wait_s = window.steps, window.duration_s, window.input_wait_s
    return (
        duration_s / steps,
        None if wait_s is None else wait_s / steps,
        None if wait_s is None else wait_s / duration_s,
        None if window.examples is None else window.examples / duration_s,
        window.buffered_batches,
        None if window.between_s is None else window.between_s / steps,
    )


def gpu_values(sample: GPUSample) -> tuple[float | None, ...]:
    """Returns the figures of a GPU's reading, in the order of `OF_GPU`."""
    *shown, others_bytes = _gpu_values(sample)
    return (*shown, is_throttled(sample.throttle_reasons), others_bytes)


def is_throttled(reasons: Sequence[str] | None) -> float | None:
    """Returns 1 if there are reasons, 0 if there are none, and None if they are unknown."""
    return None if reasons is None else float(bool(reasons))


def tags_of(kind: RecordKind, record: Any) -> dict[str, float | str]:
    """Returns the known figures and texts of a record, by tag; none for most kinds."""
    if kind == "steps":
        return _scaled(STEPS, step_figures(record))
    if kind == "host":
        return _scaled(HOST, [getattr(record, name) for name in HOST])
    if kind == "overhead":
        return _scaled(OVERHEAD, (record.step_s,))
    if kind == "gpu":
        values = [getattr(record, name) for name in names.GPU_FIGURES]
        return _scaled(of_gpu(record.index), [*values, is_throttled(record.throttle_reasons)])
    if kind == "memory":
        values = [getattr(record, name) for name in names.MEMORY_FIGURES]
        return _scaled(of_memory(record.device), values)
    if kind == "environment":
        facts = setup(record).items()
        return {names.SETUP: "\n".join(f"- {name} {value}" for name, value in facts)}
    if kind == "placement" and record != NO_STEP:
        return {names.PLACEMENT: placement_markdown(record)}
    return {names.FINDINGS: markdown(record)} if kind == "summary" else {}


def _scaled(tags: Tags, values: Sequence[float | None]) -> dict[str, float | str]:
    return {
        tag: value * factor
        for (tag, factor), value in zip(tags.values(), values, strict=True)
        if value is not None
    }
