"""Causes of slower steps that readings of the machine show: lower clocks, other processes."""

from __future__ import annotations

import statistics
from dataclasses import dataclass

from keras_gpukit.records.finding import Figure
from keras_gpukit.records.names import HOST_CPU, HOST_PROCESS_CPU
from keras_gpukit.records.run import RunSummary
from keras_gpukit.records.shift import Series
from keras_gpukit.rules.rule import figure
from keras_gpukit.rules.slowdown.shifts import scale_of, series_of

MOSTLY = 0.5
"""Least share of a change that a cause must account for to explain it."""
SINCE_INPUT, SINCE_CALLBACKS = "input wait since then", "callbacks since then"
SINCE_STEPS = "step time since then"
"""Bases of a saving, see `Saving`."""
_OTHERS_PERCENT = 15.0
_CLOCK = "sm_clock_mhz"


@dataclass(frozen=True)
class Cause:
    """A change that came together with a longer step time.

    Attributes:
        words: Description of the change, which follows "when" in a title; "" if unknown.
        basis: Basis of the saving, such as "step time since then".
        evidence: Figures before and after the change.
        advice: Recommended actions.
    """

    words: str
    basis: str
    evidence: tuple[Figure, ...] = ()
    advice: tuple[str, ...] = ()


@dataclass(frozen=True)
class Spans:
    """Two stretches of a run, before and after a change, in seconds since the run began."""

    before_s: tuple[float, float]
    after_s: tuple[float, float]


def levels(series: Series | None, spans: Spans) -> tuple[float, float] | None:
    """Returns a series' medians before and after a change; None if a stretch has no points."""
    if series is None:
        return None
    found = []
    for begin_s, end_s in (spans.before_s, spans.after_s):
        means = [
            mean
            for elapsed_s, mean in zip(series.elapsed_s, series.mean, strict=True)
            if begin_s < elapsed_s <= end_s
        ]
        if not means:
            return None
        found.append(statistics.median(means))
    return found[0], found[1]


def changed(key: str, levels: tuple[float, float], unit: str, of: str = "") -> tuple[Figure, ...]:
    """Returns the figures of a level before and after a change."""
    before, after = levels
    return figure(f"earlier_{key}", before, unit, of), figure("after", after, unit)


def slower_clock(summary: RunSummary, spans: Spans) -> Cause | None:
    """Returns a fallen GPU clock as the cause; None if no clock fell or clocks are unknown."""
    for series in summary.series:
        clocks = levels(series, spans) if series.tag.endswith(f"/{_CLOCK}") else None
        scale = scale_of(summary, series.tag)
        if clocks is None or scale is None or clocks[0] < clocks[1] or not scale.differ(*clocks):
            continue
        gpu = f"GPU:{series.tag.split('/')[1]}"
        return Cause(
            f"the clock of {gpu} fell",
            SINCE_STEPS,
            changed("clock_of", clocks, "MHz", gpu),
            (
                "`nvidia-smi -q -d PERFORMANCE,TEMPERATURE,POWER`: shows what lowers the clock",
                "cool the GPU, or compare its power limit with that of others",
            ),
        )
    return None


def busy_neighbours(summary: RunSummary, spans: Spans) -> Cause | None:
    """Returns other processes that started to use the cores; None if none did or it is unknown."""
    busy, own = (levels(series_of(summary, tag), spans) for tag in (HOST_CPU, HOST_PROCESS_CPU))
    if busy is None or own is None:
        return None
    percents = busy[0] - own[0], busy[1] - own[1]
    host = summary.host
    known = (host.children_cpu_percent, host.job_cpu_percent) if host else ()
    if percents[1] - percents[0] < max(_OTHERS_PERCENT, sum(each or 0.0 for each in known)):
        return None
    first = host.others[:1] if host else ()
    named = (
        figure("CPU_use_of", use.cpu_percent, "%", f"{use.name} (pid {use.pid})") for use in first
    )
    return Cause(
        "other processes began to use the CPU",
        SINCE_STEPS,
        (*changed("CPU_used_by_other_processes", percents, "%"), *named),
        ("stop the other processes, or give the run its own cores",),
    )
