"""Readings that are enough to conclude from, and figures made from them."""

from __future__ import annotations

from keras_gpukit.records.finding import Figure
from keras_gpukit.records.machine import GPUUtilization, HostUtilization
from keras_gpukit.records.run import RunSummary

MINIMUM_SAMPLES = 5
"""Readings of the machine below which its means say more about start-up than about training.

Our choice: tracing and compiling the first step commonly takes up the first reading or two.
"""


def gpu_readings(summary: RunSummary) -> tuple[GPUUtilization, ...]:
    """The GPUs' readings; empty where there are none, or too few."""
    record = summary.utilization
    return record.gpus if record and record.samples >= MINIMUM_SAMPLES else ()


def gpu_readings_unknown_because(summary: RunSummary) -> str | None:
    """Why there are no readings of the GPUs, where that is known."""
    return summary.utilization.gpus_unknown_because if summary.utilization else None


def host_readings(summary: RunSummary) -> HostUtilization | None:
    """The host's readings; None where there are none, or too few."""
    record = summary.utilization
    return record.host if record and record.samples >= MINIMUM_SAMPLES else None


def percent(name: str, fraction: float) -> Figure:
    """A share, as a percentage."""
    return Figure(name, 100 * fraction, "%")
