"""Whether steps take longer later in a run than earlier, and why: what else changed then."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from dataclasses import replace
from typing import ClassVar, Literal, NamedTuple

from keras_gpukit.records.event import Series, Shift
from keras_gpukit.records.finding import Figure, Severity
from keras_gpukit.records.names import (
    BETWEEN_STEPS,
    HOST_CPU,
    HOST_PROCESS_CPU,
    INPUT_WAIT,
    STEP_TIME,
)
from keras_gpukit.records.pipeline import PipelineRecord, StageRecord
from keras_gpukit.records.run import RunSummary
from keras_gpukit.rules.rule import Measure, Outcome, Rule, Share, too_short
from keras_gpukit.rules.savings import of_run, severity
from keras_gpukit.rules.whole_run.shifts import FEWEST, LARGER, series_of, shifts_in

BASES = {"input": "input wait", "callbacks": "callbacks"}
LEAST_SHARE = 0.05
SHORTEST_S = float(FEWEST)
WARM_UP_S = 10.0
WARM_UP_SHARE = 0.2
# A later level below this multiple of an earlier one counts as a return to it.
_SAME = 1.1
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
"""Interval of a run, in seconds since the run began; two of them are before and after a change."""
Spans = tuple[Span, Span]


class Slowdown(NamedTuple):
    """A change to slower steps.

    Attributes:
        begin_s: Start of the level before the change, in seconds since the run began.
        back: Later change that made steps as fast as before; None if they stayed slower.
        lost_s: Total extra time of the slower steps, compared with the level before the change.
        low_s: Total extra time compared with the ninth decile of the step times before.
        high_s: Total extra time compared with the first decile of the step times before.
    """

    shift: Shift
    begin_s: float
    back: Shift | None
    lost_s: float
    low_s: float
    high_s: float


class SlowdownCause(NamedTuple):
    """A change that came together with a longer step time.

    Attributes:
        words: Description of the change, which follows "when" in a title; "" if unknown.
    """

    about: About
    words: str
    evidence: tuple[Figure, ...] = ()
    advice: tuple[str, ...] = ()


class SlowerOverTime(Rule):
    """Steps that take 1.25 times as long from some step on, or gradually come to do so."""

    code = "throughput-drops"
    title = "Steps became slower as the run went on"
    requires = f"step times over at least {SHORTEST_S:.0f} s, in at least {FEWEST} points"
    charts = ("timeline", "stages")
    in_captures = True
    same_cause: ClassVar = {"input": "input-bound", "callbacks": "slow-callbacks"}
    earlier_step_time = Measure("The step time was {value} before", "ms")
    earlier_input_wait = Measure("The input wait was {value} before", "ms")
    earlier_time_per_batch_of = Measure("{of} took {value} per batch before", "ms")
    earlier_between_steps = Measure("Between steps, {value} passed before", "ms")
    earlier_clock_of = Measure("The clock of {of} was {value} before", "MHz")
    earlier_CPU_of_others = Measure("Other processes used {value} of all cores before", "%")
    CPU_use_of = Measure("{of} uses {value} of all cores", "%")
    after = Measure(", {value} after")
    of_the_steps_time_lost = Share("{value} of the steps' time is lost by it")

    def judge(self, summary: RunSummary) -> Outcome:
        series = series_of(summary, STEP_TIME)
        # Each epoch ends a point, so even ten points may cover little time in a short run.
        if series is None or len(series.mean) < FEWEST or series.elapsed_s[-1] < SHORTEST_S:
            return too_short(f"needs {self.requires}")
        worst = max(_slowdowns(summary, series), key=lambda slowdown: slowdown.lost_s, default=None)
        if worst is None:
            return None
        steps_ms = (mean * steps for mean, steps in zip(series.mean, series.weight, strict=True))
        share = worst.lost_s / (sum(steps_ms) / 1e3)
        if share < LEAST_SHARE:
            return None
        shift, cause = worst.shift, _cause(summary, worst.shift, worst.begin_s)
        basis = f"{BASES.get(cause.about, 'step time')} since then"
        saving = of_run(summary, worst.low_s, worst.high_s, basis=basis)
        # A slowdown that lasts costs more in a longer run, so it is more than a remark.
        level: Severity = "critical" if severity(saving, summary) == "critical" else "warning"
        if cause.about == "other processes":  # no change of the script saves that time
            level, saving = "info", None
        return self.find(
            level,
            *_changed(self.earlier_step_time, (shift.before, shift.after)),
            *cause.evidence,
            self.of_the_steps_time_lost(share),
            advice=cause.advice,
            saving=saving,
            title=_title(worst, cause),
            about=cause.about,
        )


def _slowdowns(summary: RunSummary, series: Series) -> Iterator[Slowdown]:
    """Yields the changes to slower steps after the warm-up, in order."""
    shifts, begin_s = tuple(shifts_in(summary, series)), 0.0
    warm_up_s = min(WARM_UP_S, WARM_UP_SHARE * series.elapsed_s[-1])
    for place, shift in enumerate(shifts):
        if shift.after > shift.before and shift.elapsed_s >= warm_up_s:
            later = (other for other in shifts[place + 1 :] if other.after < _SAME * shift.before)
            back = next(later, None)
            yield Slowdown(shift, begin_s, back, *_lost_s(series, shift, begin_s, back))
        begin_s = shift.elapsed_s


def _lost_s(series: Series, shift: Shift, begin_s: float, back: Shift | None) -> Iterator[float]:
    """Yields the extra time over the level before, and over its ninth and its first decile."""
    end_s = back.elapsed_s if back else series.elapsed_s[-1]
    points = list(zip(series.elapsed_s, series.mean, series.weight, strict=True))
    before = [mean for until_s, mean, _ in points if begin_s < until_s <= shift.elapsed_s]
    fast_ms = slow_ms = shift.before
    if len(before) > 1:
        fast_ms, *_, slow_ms = statistics.quantiles(before, n=10, method="inclusive")
    slower = [point for point in points if shift.elapsed_s < point[0] <= end_s]
    for level in (shift.before, slow_ms, fast_ms):
        yield sum((mean - level) * steps for _, mean, steps in slower) / 1e3


def _title(slowdown: Slowdown, cause: SlowdownCause) -> str:
    shift, back = slowdown.shift, slowdown.back
    times = f"{two_digits(shift.after / shift.before)}× slower"
    when = f", when {cause.words}" if cause.words else ""
    if shift.kind == "drift":
        return f"Steps became {times} from the first third of the run to the last{when}"
    since = f"step {shift.step:,}, {_spoken(shift.elapsed_s)} in"
    if back is not None:
        return f"Steps were {times} from {since}, until step {back.step - 1:,}{when}"
    return f"Steps are {times} from {since}{when}"


def _spoken(elapsed_s: float) -> str:
    """Formats a time since the run began: "40 s", "1.2 min"."""
    for size_s, unit in ((3600.0, "h"), (60.0, "min")):
        if elapsed_s >= size_s:
            return f"{two_digits(elapsed_s / size_s)} {unit}"
    return f"{two_digits(elapsed_s)} s"


def two_digits(number: float) -> str:
    """Formats a factor or a number for a title: "4.9", "12"."""
    return f"{number:,.0f}" if number >= 10 else f"{number:.2g}"


def _cause(summary: RunSummary, shift: Shift, begin_s: float) -> SlowdownCause:
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
        evidence = _changed(SlowerOverTime.earlier_input_wait, waits)
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


def _changed(measure: Measure, levels: tuple[float, float], of: str = "") -> tuple[Figure, Figure]:
    """Returns a figure before and after a change."""
    return measure(levels[0], of), replace(SlowerOverTime.after(levels[1]), unit=measure.unit)


def _input(
    summary: RunSummary, spans: Spans, waits: tuple[float, float], captured: tuple[str, ...]
) -> SlowdownCause:
    evidence: tuple[Figure, ...] = _changed(SlowerOverTime.earlier_input_wait, waits)
    slower = _slower_stage(summary.pipeline, spans)
    python = summary.input.python if summary.input else None
    name, where = python.name if python else "the input pipeline", ""
    if slower is not None:
        stage, costs_ms = slower
        name, where = stage.name, stage.where
        evidence += _changed(SlowerOverTime.earlier_time_per_batch_of, costs_ms, name)
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
    figures = _changed(SlowerOverTime.earlier_between_steps, between)
    return SlowdownCause("callbacks", words, figures, _LOOK_INTO_CALLBACKS)


def _slower_clock(summary: RunSummary, spans: Spans) -> SlowdownCause | None:
    for tag in (series.tag for series in summary.series if series.tag.endswith("/sm_clock_mhz")):
        clocks = _levels(summary, tag, spans)
        if clocks and clocks[0] >= LARGER * clocks[1] > 0:
            gpu = f"GPU:{tag.split('/')[1]}"
            figures = _changed(SlowerOverTime.earlier_clock_of, clocks, gpu)
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
    evidence: list[Figure] = [*_changed(SlowerOverTime.earlier_CPU_of_others, percents)]
    if host and host.others:
        most = host.others[0]
        name = f"{most.name} (pid {most.pid})"
        evidence.append(SlowerOverTime.CPU_use_of(most.cpu_percent, name))
    return SlowdownCause(
        "other processes",
        "other processes took more of the CPU",
        tuple(evidence),
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
    known = summary.captures.captures if summary.captures else ()
    captures = [capture for capture in known if capture.path]
    after = [capture for capture in captures if capture.first_step >= shift.step]
    before = [capture for capture in captures if capture.first_step < shift.step]
    if after:
        profile = f"see the profile of step {after[0].first_step:,} ({after[0].reason})"
        other = f", and compare it with that of step {before[-1].first_step:,}" if before else ""
        yield profile + other
