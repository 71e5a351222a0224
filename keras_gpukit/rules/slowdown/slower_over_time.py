"""Whether steps take longer later in a run than earlier."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from typing import ClassVar, NamedTuple

from keras_gpukit.records.event import Series, Shift
from keras_gpukit.records.finding import Severity
from keras_gpukit.records.names import STEP_TIME
from keras_gpukit.records.run import RunSummary
from keras_gpukit.rules.rule import Outcome, Rule, Share, too_short
from keras_gpukit.rules.savings import of_run, severity
from keras_gpukit.rules.slowdown.shifts import FEWEST, series_of, shifts_in
from keras_gpukit.rules.slowdown.slowdown_causes import (
    SlowdownCause,
    SlowdownMeasures,
    cause_of,
    changed,
)

BASES = {"input": "input wait", "callbacks": "callbacks"}
LEAST_SHARE = 0.05
SHORTEST_S = float(FEWEST)
WARM_UP_S = 10.0
WARM_UP_SHARE = 0.2
# A later level below this multiple of an earlier one counts as a return to it.
_SAME = 1.1


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


class SlowerOverTime(SlowdownMeasures, Rule):
    """Steps that take 1.25 times as long from some step on, or gradually come to do so."""

    code = "throughput-drops"
    title = "Steps became slower as the run went on"
    requires = f"step times over at least {SHORTEST_S:.0f} s, in at least {FEWEST} points"
    charts = ("timeline", "stages")
    in_captures = True
    same_cause: ClassVar = {"input": "input-bound", "callbacks": "slow-callbacks"}
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
        shift, cause = worst.shift, cause_of(summary, worst.shift, worst.begin_s)
        basis = f"{BASES.get(cause.about, 'step time')} since then"
        saving = of_run(summary, worst.low_s, worst.high_s, basis=basis)
        # A slowdown that lasts costs more in a longer run, so it is more than a remark.
        level: Severity = "critical" if severity(saving, summary) == "critical" else "warning"
        if cause.about == "other processes":  # no change of the script saves that time
            level, saving = "info", None
        return self.find(
            level,
            *changed(self.earlier_step_time, (shift.before, shift.after)),
            *cause.evidence,
            self.of_the_steps_time_lost(share),
            advice=cause.advice,
            saving=saving,
            title=_title(worst, cause),
            about=cause.about,
        )


def _slowdowns(summary: RunSummary, series: Series) -> Iterator[Slowdown]:
    """Yields the changes to slower steps after the warm-up, in order."""
    shifts, begin_s = shifts_in(summary, STEP_TIME), 0.0
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
