"""Says that most of a run was compute that no profile shows, and how to get one."""

from __future__ import annotations

from keras_gpukit.errors import one_line
from keras_gpukit.records.profile import BETWEEN, ProfileRecord
from keras_gpukit.records.run import RunSummary
from keras_gpukit.reports import units
from keras_gpukit.rules.slowdown.cpu_captures import MOST_COMPUTES

LEAST_LOOP_S = 5.0
"""Least time of the steps of an own loop that is said not to be looked into; our choice."""


def unseen_compute(summary: RunSummary) -> str | None:
    """Returns a sentence if most of a run was compute and none of its profiles was read.

    Nothing found then means little: only the time around compute was looked at.
    """
    parts = summary.breakdown
    if parts is None:
        return _of_own_loop(summary)
    share = (parts.compute_s or 0.0) / parts.wall_s if parts.wall_s else 0.0
    if share < MOST_COMPUTES:
        return None
    if summary.profile is not None:
        return _between_operations(summary.profile)
    because = _unread_because(summary)
    said = f"{units.percentage(share)} of the time is compute, which was not looked into"
    return f"{said}: {one_line(because)}." if because else f"{said}."


def how_to_see(again: str | None) -> str:
    """Says how to see what steps compute; `again` is the command that profiles the script."""
    by = "he callback keras_gpukit.Profiler()"
    by = f"{again}, or t{by}," if again else f"T{by}"
    return f"{by} shows what the steps compute, by layer."


def _of_own_loop(summary: RunSummary) -> str | None:
    """Returns a sentence on a loop of the script's own, whose steps were not looked into."""
    steps, record = summary.throughput, summary.input
    is_monitored = summary.overhead_s is not None
    if is_monitored or steps is None or steps.step_time_s is None or summary.profile is not None:
        return None
    computing_s = steps.steps * steps.step_time_s * (1 - ((record and record.stall_fraction) or 0))
    if computing_s < LEAST_LOOP_S:
        return None
    took = f"{steps.steps:,} steps took {units.duration(computing_s)} without the wait for data"
    return f"{took}; what they compute was not looked into."


def _between_operations(profile: ProfileRecord) -> str | None:
    """Returns a sentence if most of a captured step passes between its operations."""
    layers_s = sum(each.time_s for each in profile.layers)
    between_s = sum(each.time_s for each in profile.layers if each.path == BETWEEN)
    if not layers_s or between_s < MOST_COMPUTES * layers_s:
        return None
    many = round(sum(each.kernels for each in profile.layers))
    return (
        f"{units.percentage(between_s / layers_s)} of a captured step passes between its {many:,} "
        "operations, which are small; `compile(jit_compile=True)` may join them, as "
        "`keras-gpukit tune` tries."
    ).replace("`", "")


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
