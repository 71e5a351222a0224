"""Why steps became slower: what else changed at the same time."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from dataclasses import replace
from typing import Literal, NamedTuple

from keras_gpukit.records.event import Shift
from keras_gpukit.records.finding import Figure
from keras_gpukit.records.names import (
    BETWEEN_STEPS,
    HOST_CPU,
    HOST_PROCESS_CPU,
    INPUT_WAIT,
    STEP_TIME,
)
from keras_gpukit.records.pipeline import PipelineRecord, StageRecord
from keras_gpukit.records.profile import ProfilerRecord
from keras_gpukit.records.run import RunSummary
from keras_gpukit.rules.rule import Measure
from keras_gpukit.rules.slowdown.shifts import LARGER, series_of

MOSTLY = 0.5
"""Least share of a change that a cause, a callback or a stage must account for; our choice."""
About = Literal["input", "callbacks", "clock", "other processes", ""]
"""Causes of a slowdown; "" if unknown."""
_OTHERS_PERCENT = 15.0
_FULL_PERCENT = 95.0
_LOOK_INTO_STEPS = (
    "look for what grows: longer examples, lists kept between steps, memory that runs out",
    "profile a step before and one after: `keras_gpukit.Profiler(log_dir, at_steps=...)`",
)
_LOOK_INTO_CALLBACKS = (
    "look for what grows in callbacks: lists of losses, files that they rewrite",
    "do less at each batch: every tenth or hundredth, or at the end of epochs",
)
_LOOK_AT_GPU = (
    "`nvidia-smi -q -d PERFORMANCE,TEMPERATURE,POWER`: shows what lowers the clock",
    "cool the GPU, or compare its power limit with that of others",
)

Span = tuple[float, float]
"""Interval of a run, in seconds since the run began."""
Spans = tuple[Span, Span]
"""Intervals before and after a change."""


class SlowdownMeasures:
    """Figures before and after steps became slower."""

    earlier_step_time = Measure("The step time was {value} before", "ms")
    earlier_input_wait = Measure("The input wait was {value} before", "ms")
    earlier_time_per_batch_of = Measure("{of} took {value} per batch before", "ms")
    earlier_between_steps = Measure("Between steps, {value} passed before", "ms")
    earlier_clock_of = Measure("The clock of {of} was {value} before", "MHz")
    earlier_CPU_of_others = Measure("Other processes used {value} of all cores before", "%")
    CPU_use_of = Measure("{of} uses {value} of all cores", "%")
    after = Measure(", {value} after")


class SlowdownCause(NamedTuple):
    """A change that came together with a longer step time.

    Attributes:
        words: Description of the change, which follows "when" in a title; "" if unknown.
    """

    about: About
    words: str
    evidence: tuple[Figure, ...] = ()
    advice: tuple[str, ...] = ()


def cause_of(summary: RunSummary, shift: Shift, begin_s: float) -> SlowdownCause:
    """Returns what changed when steps became slower."""
    # A drift is from the first third of the run to the last.
    after_s = shift.elapsed_s if shift.kind == "level" else shift.end_s - shift.elapsed_s
    spans = (begin_s, shift.elapsed_s), (after_s, shift.end_s)
    least_ms = MOSTLY * (shift.after - shift.before)
    waits, record = _levels(summary, INPUT_WAIT, spans), summary.input
    captured = tuple(_captures(summary, shift))
    words = ""
    evidence: tuple[Figure, ...] = ()
    is_known = record and record.confidence != "upper bound" and record.live_stall_fraction is None
    if waits is not None and is_known:
        if waits[1] - waits[0] >= least_ms:
            return _input(summary, spans, waits, captured)
        words = "the steps' own work slowed down"
        evidence = changed(SlowdownMeasures.earlier_input_wait, waits)
    look = _LOOK_INTO_STEPS[:1] if captured else _LOOK_INTO_STEPS
    return (
        _callbacks(summary, least_ms, spans)
        or _slower_clock(summary, spans)
        or _by_other_processes(summary, spans)
        or SlowdownCause("", words, evidence, (*captured, *look))
    )


def _levels(summary: RunSummary, tag: str, spans: Spans) -> tuple[float, float] | None:
    """Returns a figure's medians before and after a change; None if an interval has no points."""
    series = series_of(summary, tag)
    points = list(zip(series.elapsed_s, series.mean, strict=True)) if series else []
    before, after = ([mean for at, mean in points if span[0] < at <= span[1]] for span in spans)
    return (statistics.median(before), statistics.median(after)) if before and after else None


def changed(measure: Measure, levels: tuple[float, float], of: str = "") -> tuple[Figure, Figure]:
    """Returns a figure before and after a change."""
    return measure(levels[0], of), replace(SlowdownMeasures.after(levels[1]), unit=measure.unit)


def _input(
    summary: RunSummary, spans: Spans, waits: tuple[float, float], captured: tuple[str, ...]
) -> SlowdownCause:
    evidence: tuple[Figure, ...] = changed(SlowdownMeasures.earlier_input_wait, waits)
    slower = _slower_stage(summary.pipeline, spans)
    python = summary.input.python if summary.input else None
    name, where = python.name if python else "the input pipeline", ""
    if slower is not None:
        stage, costs_ms = slower
        name, where = stage.name, stage.where
        evidence += changed(SlowdownMeasures.earlier_time_per_batch_of, costs_ms, name)
    others = _by_other_processes(summary, spans)
    return SlowdownCause(
        "input",
        f"{name} slowed down{where}",
        evidence + (others.evidence if others else ()),
        (
            *captured,
            *(others.advice if others else ()),
            f"look for what changed in {name} then: larger examples, lists that it keeps and grows",
            "storage that slows down after a burst or is shared: copy the data to a local disk",
        ),
    )


def _slower_stage(
    pipeline: PipelineRecord | None, spans: Spans
) -> tuple[StageRecord, tuple[float, float]] | None:
    """Returns the stage that slowed down most, and its ms per batch before and after; or None."""
    if pipeline is None:
        return None
    costs_s = list(zip(*(_costs_s(pipeline, span) for span in spans), strict=False))
    rises = [max(later - one, 0.0) for one, later in costs_s]
    largest = max(range(len(rises)), key=rises.__getitem__, default=0)
    if not rises or rises[largest] <= MOSTLY * sum(rises):
        return None
    before_s, after_s = costs_s[largest]
    return pipeline.stages[largest], (1e3 * before_s, 1e3 * after_s)


def _costs_s(pipeline: PipelineRecord, span_s: Span) -> list[float]:
    """Returns the median cost of each stage in an interval; empty if none was measured there."""
    inside = [
        cost for cost in pipeline.costs if span_s[0] <= (cost.begin_s + cost.end_s) / 2 <= span_s[1]
    ]
    # A part that lies only partly in the interval is used only if no part lies wholly in it.
    whole = [cost for cost in inside if span_s[0] <= cost.begin_s and cost.end_s <= span_s[1]]
    columns = zip(*(cost.per_batch_s for cost in whole or inside), strict=True)
    return [statistics.median(costs) for costs in columns]


def _callbacks(summary: RunSummary, least_ms: float, spans: Spans) -> SlowdownCause | None:
    between = _levels(summary, BETWEEN_STEPS, spans)
    if between is None or between[1] - between[0] < least_ms:
        return None
    parts = summary.breakdown
    name, longest_s = next(iter(parts.by_callback.items()), ("", 0.0)) if parts else ("", 0.0)
    is_named = parts is not None and longest_s >= MOSTLY * parts.callbacks_s
    words = f"the callback {name} slowed down" if is_named else "callbacks slowed down"
    figures = changed(SlowdownMeasures.earlier_between_steps, between)
    return SlowdownCause("callbacks", words, figures, _LOOK_INTO_CALLBACKS)


def _slower_clock(summary: RunSummary, spans: Spans) -> SlowdownCause | None:
    for tag in (series.tag for series in summary.series if series.tag.endswith("/sm_clock_mhz")):
        clocks = _levels(summary, tag, spans)
        if clocks and clocks[0] >= LARGER * clocks[1] > 0:
            gpu = f"GPU:{tag.split('/')[1]}"
            figures = changed(SlowdownMeasures.earlier_clock_of, clocks, gpu)
            return SlowdownCause("clock", f"the clock of {gpu} fell", figures, _LOOK_AT_GPU)
    return None


def _by_other_processes(summary: RunSummary, spans: Spans) -> SlowdownCause | None:
    busy, own = (_levels(summary, tag, spans) for tag in (HOST_CPU, HOST_PROCESS_CPU))
    if busy is None or own is None:
        return None
    percents = busy[0] - own[0], busy[1] - own[1]
    host = summary.host
    known = (host.children_cpu_percent, host.job_cpu_percent) if host else ()
    least = max(_OTHERS_PERCENT, sum(percent or 0.0 for percent in known))
    if percents[1] - percents[0] < least and not _is_crowded_out(summary, spans, busy, own):
        return None
    others = host.others[:1] if host else ()
    return SlowdownCause(
        "other processes",
        "other processes took more of the CPU",
        (
            *changed(SlowdownMeasures.earlier_CPU_of_others, percents),
            *(
                SlowdownMeasures.CPU_use_of(use.cpu_percent, f"{use.name} (pid {use.pid})")
                for use in others
            ),
        ),
        ("stop the other processes, or give the run its own cores",),
    )


def _is_crowded_out(
    summary: RunSummary, spans: Spans, busy: tuple[float, float], own: tuple[float, float]
) -> bool:
    """Whether this process got less of full cores, in proportion to how slow steps became."""
    steps = _levels(summary, STEP_TIME, spans)
    if steps is None or min(busy) < _FULL_PERCENT or min(own) <= 0:
        return False
    return own[0] / own[1] - 1 >= MOSTLY * (steps[1] / steps[0] - 1) > 0


def _captures(summary: RunSummary, shift: Shift) -> Iterator[str]:
    """Yields where to look: the first profile after the change, and the last one before it."""
    captures = [record for record in (summary.captures or ProfilerRecord()).captures if record.path]
    after = [capture for capture in captures if capture.first_step >= shift.step]
    before = [capture for capture in captures if capture.first_step < shift.step]
    if after:
        profile = f"see the profile of step {after[0].first_step:,} ({after[0].reason})"
        other = f", and compare it with that of step {before[-1].first_step:,}" if before else ""
        yield profile + other
