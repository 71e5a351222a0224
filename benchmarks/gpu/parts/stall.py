"""The input stall that `InputStall` reports, against the time in which the GPU really idled."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any

from benchmarks.gpu.part import Cases, Measured, Outcome, Part

CASES = (
    *(("serial", percent) for percent in (0, 25, 50, 90)),
    *((name, 50) for name in ("prefetched", "bursty", "parallel", "interleaved")),
    ("generator", 50),
    ("pydataset", 50),
)
"""Pipelines, and how much of a step each is to stall, in percent."""
FEW = (("serial", 0), ("serial", 50), ("prefetched", 50), ("generator", 50))
LATEST = {"synchronous": True}
WAYS = {
    "8 steps": (CASES, {"steps_per_execution": 8}),
    "1 step": (CASES, {}),
    "1 step, synchronous": (FEW, LATEST),
    "8 steps, synchronous": (FEW, {"steps_per_execution": 8, **LATEST}),
    "1 step, jit": (FEW, {"jit": True, **LATEST}),
    "8 steps, jit": (FEW, {"steps_per_execution": 8, "jit": True, **LATEST}),
}
"""Ways of running, each with its cases and how `Way` sets it up."""
SLICES = {
    "8-steps": (60, "8 steps"),
    "1-step": (60, "1 step"),
    "synchronous": (60, "8 steps, synchronous", "1 step, synchronous"),
    "jit": (60, "8 steps, jit", "1 step, jit"),
}
POINTS = {way: 5.0 if way.startswith("8") else 3.0 for way in WAYS}
"""By how many percentage points a stall may be wrong."""
READY_POINTS = 1.0
STEP_S = 0.01
FIT_S = 1.5
"""Long enough for half a percentage point, short enough for a profile."""
EXPECTED = {
    "8 steps": "on input pipelines with known delays and 8 steps per execution, "
    "`InputStall` reports the time in which the GPU idles while a batch is fetched, as a profile "
    "shows it, to within 5 percentage points, or a range that does",
    "1 step": "on these pipelines with one step per execution, to within 3 percentage points",
    "1 step, synchronous": "the same where Keras waits for each step's loss, as with callbacks "
    "that are not `async_safe`, to within 3 percentage points",
    "8 steps, synchronous": "the same with 8 steps per execution, to within 5 percentage points",
    "1 step, jit": "the same with jit and one step per execution, to within 3 percentage points",
    "8 steps, jit": "the same with jit and 8 steps per execution, to within 5 percentage points",
}
RANGE = (
    "fetches that computing hides no longer count. With these figures' clocks, the range that is "
    "reported holds the idle time (`tests/input/wait/test_hidden_wait.py`)."
)
CORRECTED = {f"8 steps, {way}": (f"{way}:ddfb3fdf85e9", RANGE) for way in ("synchronous", "jit")}
PART = Part(
    "stall", "Is the reported input stall the time in which the GPU idles for want of a batch?"
)


def fits(small: bool, *, ways: tuple[str, ...]) -> Cases:
    """Fits batches that are ready, and each case, in some ways of running."""
    for name in ways:
        yield from _fits(name, small)


def _fits(name: str, small: bool) -> Iterator[tuple[str, Any]]:
    cases, how = WAYS[name]

    @cache
    def way() -> Any:
        from benchmarks.gpu.stalled_fits import Way

        return Way(STEP_S / 4 if small else STEP_S, fit_s=0.05 if small else FIT_S, **how)

    yield f"{name}/ready", lambda: way().ready()
    for case in cases[1:2] if small else cases:
        yield f"{name}/{case[0]} {case[1]}", lambda case=case: way().stalled(*case)
    if name == "1 step":
        yield f"{name}/transferred", lambda: way().transferred(2**10 if small else 2**20)


for _name, (_seconds, *_ways) in SLICES.items():
    PART.slice(_name, _seconds)(partial(fits, ways=_ways))


@dataclass(frozen=True)
class Case:
    """What was reported of a fit, and what the GPU did; all in percent of the step."""

    way: str
    reported: float | None
    most: float | None
    """The upper end of a range, of which `reported` is then the lower one."""
    fetching: float
    """Idle time while a batch was fetched, as a profile shows it: the true stall."""

    @property
    def off(self) -> float | None:
        """By how much the figure, or the range, misses the true stall; None without a figure."""
        if self.reported is None:
            return None
        most = self.most or self.reported
        return max(self.reported - self.fetching, self.fetching - most, 0.0)


def cases_of(measured: Measured) -> dict[str, Case]:
    """Returns the cases that show what the GPU did."""
    cases = {}
    for name, row in measured.items():
        way, _, case = name.partition("/")
        if case in ("ready", "transferred") or "reported" not in row:
            continue
        low, high = row["reported"], row.get("most")
        if row.get("idle_ms") is not None or low is None:
            ends = [None if end is None else 100 * end for end in (low, high)]
            cases[name] = Case(way, *ends, 100 * (row.get("idle_while_fetching") or 0.0))
    return cases


def stall_outcome(measured: Measured, way: str) -> Outcome:
    """Compares what was reported in one way of running with what the GPU did."""
    those = {name: case for name, case in cases_of(measured).items() if case.way == way}
    known = {name: case.off for name, case in those.items() if case.off is not None}
    outcome, expected = largest("off by", known, POINTS[way]), len(WAYS[way][0])
    widths = [
        case.most - case.reported
        for case in those.values()
        if None not in (case.most, case.reported)
    ]
    if widths:
        ranges = f"{len(widths)} are ranges, up to {max(widths):.0f} percentage points wide."
        outcome = replace(outcome, evidence=f"{outcome.evidence} {ranges}")
    if outcome.holds is not False and len(known) < expected and those:
        missing = f"{len(known)} of {expected} cases have a figure. {outcome.evidence}"
        return Outcome(None if len(known) == len(those) else False, missing)
    return outcome


def largest(what: str, points: dict[str, float], limit: float) -> Outcome:
    """Judges whether the largest of some percentages is within a limit."""
    if not points:
        return Outcome(None, "No case has a figure.")
    worst = max(points, key=lambda name: points[name])
    evidence = (
        f"Of {len(points)} cases, {what} at most {points[worst]:.1f} percentage points ({worst})."
    )
    return Outcome(points[worst] <= limit, evidence)


for _way in WAYS:
    PART.claim(EXPECTED[_way], name=_way, corrected=CORRECTED.get(_way, ("", "")))(
        partial(stall_outcome, way=_way)
    )


@PART.claim(
    "if batches are ready, at most 1 percentage point is reported, even if each takes long to "
    "reach the GPU"
)
def ready(measured: Measured) -> Outcome:
    those = {
        name: 100 * row["reported"]
        for name, row in measured.items()
        if name.endswith(("/ready", "/transferred")) and row.get("reported") is not None
    }
    return largest("reported", those, READY_POINTS)
