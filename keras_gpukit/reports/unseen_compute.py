"""Says that most of a run was compute that no profile shows, and how to get one."""

from __future__ import annotations

from keras_gpukit.errors import one_line
from keras_gpukit.records.run import RunSummary
from keras_gpukit.reports import units
from keras_gpukit.rules.slowdown.cpu_captures import MOST_COMPUTES

HOW = (
    "`keras-gpukit run --profile script.py`, or the callback `keras_gpukit.Profiler()`, shows what "
    "the steps compute, by layer."
).replace("`", "")


def unseen_compute(summary: RunSummary) -> str | None:
    """Returns a sentence if most of a run was compute and none of its profiles was read.

    Nothing found then means little: only the time around compute was looked at.
    """
    parts = summary.breakdown
    if summary.profile is not None or parts is None or not parts.wall_s:
        return None
    share = (parts.compute_s or 0.0) / parts.wall_s
    if share < MOST_COMPUTES:
        return None
    because = _unread_because(summary)
    said = f"{units.percentage(share)} of the time is compute, which was not looked into"
    return f"{said}: {one_line(because)}." if because else f"{said}."


def _unread_because(summary: RunSummary) -> str | None:
    record = summary.captures
    if record is None:
        return "without a log directory, no profile is captured"
    for capture in record.captures:
        because = capture.failed_because or capture.unread_because
        if because is not None:
            return because
    if record.captures:
        return "the run read none of its profiles"
    missed = next((each.because for each in record.missed), None)
    return missed or record.none_automatic_because or record.unknown_because
