"""Whether the slowest part of the input computes or waits: for a disk, a network or a sleep."""

from __future__ import annotations

from keras_gpukit.records.run import RunSummary
from keras_gpukit.records.steps import InputRecord
from keras_gpukit.rules.input.contention import CORES_BUSY_FRACTION, gil_is_contended

WAITING_RATIO = 2.0
"""Smallest ratio of a stage's time to the processor time that it may have used, both per step, from
which the stage counts as waiting: at least half of its time is then no computation. Our choice."""
WAITING_CALLS = 16
"""Parallel calls, threads or workers advised for code that waits; our choice. They need no cores of
their own. `tune_input` tries more."""


def mostly_waits(record: InputRecord, summary: RunSummary) -> bool:
    """Whether the code that the input spends its time in mostly waits, as measured.

    The processor time of the whole process is the most that the code can have computed. Threads
    that wait for the GIL or for a core do not compute either, so the answer is False if the GIL is
    contended or the cores of the machine are busy. It is False without evidence.

    Args:
        record: Record of the input.
        summary: The run.
    """
    contention, cores = record.contention, summary.environment.cpu_count
    if contention is None or contention.cores_busy_fraction is None or not cores:
        return False
    machine_percent = (summary.host.cpu_percent if summary.host else None) or 0.0
    busy = max(machine_percent / 100, contention.cores_busy_fraction)
    if gil_is_contended(contention, cores) or busy >= CORES_BUSY_FRACTION:
        return False
    spent_s = _time_per_step_s(record)
    if spent_s is None or not record.wait_s or not record.stall_fraction:
        return False
    computed_s = contention.cores_busy_fraction * cores * record.wait_s / record.stall_fraction
    return spent_s >= WAITING_RATIO * computed_s


def _time_per_step_s(record: InputRecord) -> float | None:
    """Returns how long threads are inside the slowest code per step; None if unknown."""
    if record.python is not None and record.python.time_per_batch_s is not None:
        return record.python.time_per_batch_s
    slowest = record.pipeline.bottleneck if record.pipeline else None
    return None if slowest is None else slowest.cost_per_batch_s
