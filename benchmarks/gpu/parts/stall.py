"""The input stall that `InputStall` reports, against the time in which the GPU really idled."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any

from benchmarks.gpu.part import Claim, Measured, Outcome, Part, Slice

CASES = (
    *(("serial", percent) for percent in (0, 25, 50, 90)),
    *((name, 50) for name in ("prefetched", "bursty", "parallel", "interleaved")),
    *((name, 50) for name in ("generator", "pydataset", "decode", "copy")),
)
"""Pipelines, and how much of a step each is to stall, in percent."""
FEW = (("serial", 0), ("serial", 50), ("prefetched", 50), ("generator", 50))
TWO = (("serial", 0), ("serial", 50))
WAYS = {
    "8 steps": (CASES, {"steps_per_execution": 8}),
    "to device": (TWO, {"to_device": True}),
    "mirrored": (TWO, {"mirrored": True}),
    "1 step": (CASES, {}),
    "1 step, synchronous": (FEW, {"synchronous": True}),
    "8 steps, synchronous": (FEW, {"steps_per_execution": 8, "synchronous": True}),
    "1 step, jit": (FEW, {"jit": True, "synchronous": True}),
    "8 steps, jit": (FEW, {"steps_per_execution": 8, "jit": True, "synchronous": True}),
}
"""Ways of running, each with its cases and how `Way` sets it up."""
SMALL = {"8 steps": (("serial", 50),), "1 step": (("decode", 50), ("copy", 50))}
SAMPLED = {"to device", *(way for way in WAYS if way.startswith("8"))}
POINTS = {way: 5.0 if way in SAMPLED else 3.0 for way in WAYS}
"""By how many percentage points a stall may be wrong."""
READY_POINTS = 1.0
FRAMEWORK = ("Cannot assign a device", "Colocation", "node IteratorGetModelProto", "errors_impl")
"""What only messages of TensorFlow say."""
STEP_S = 0.01
FIT_S = 1.5
"""Long enough for half a percentage point, short enough for a profile."""


def slice_of(*ways: str, seconds: float = 60.0) -> Slice:
    """Returns a slice that fits the cases of some ways of running."""
    return Slice(lambda small, _: (case for way in ways for case in fits(way, small)), seconds)


def fits(name: str, small: bool) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Fits batches that are ready, and each case, in one way of running."""
    cases, how = WAYS[name]
    way = cache(lambda: make_way(how, small))
    yield f"{name}/ready", lambda: way().ready()
    if small:
        cases = SMALL.get(name, cases[-1:])
    for pipeline, percent in cases:
        yield f"{name}/{pipeline} {percent}", partial(stalled, way, pipeline, percent)
    if name == "1 step":
        yield f"{name}/transferred", lambda: way().transferred(2**10 if small else 2**20)


def make_way(how: dict[str, Any], small: bool) -> Any:
    """Returns what fits a model in one way of running."""
    from benchmarks.gpu.stalled_fits import Way

    return Way(STEP_S / 4 if small else STEP_S, fit_s=0.05 if small else FIT_S, **how)


def stalled(way: Callable[[], Any], pipeline: str, percent: int) -> Any:
    """Returns what a fit of one case shows."""
    return way().stalled(pipeline, percent)


@dataclass(frozen=True)
class Case:
    """What was reported of a fit, and what the GPU did; all in percent of the step."""

    way: str
    name: str
    reported: float | None
    most: float | None
    """The upper end of a range, of which `reported` is then the lower one."""
    fetching: float
    """Idle time while a batch was fetched, as a profile shows it: the true stall."""
    idle: float | None
    """Idle time above that of the same step with batches that are ready: another reading."""

    @property
    def off(self) -> float | None:
        """By how much the figure, or the range, misses the true stall; None without a figure."""
        # A buffer on the device fetches too, also while no step waits.
        true = self.idle if self.way == "to device" else self.fetching
        if self.reported is None or true is None:
            return None
        most = self.reported if self.most is None else self.most
        return max(self.reported - true, true - most, 0.0)


def cases_of(measured: Measured) -> list[Case]:
    """Returns the cases that show what the GPU did."""
    cases = []
    for name, row in measured.items():
        way, _, case = name.partition("/")
        ready_ms = measured.get(f"{way}/ready", {}).get("idle_ms")
        if case in ("ready", "transferred") or "reported" not in row:
            continue
        reported = row["reported"]
        if row.get("idle_ms") is None and reported is not None:
            continue
        cases.append(
            Case(
                way=way,
                name=name,
                reported=None if reported is None else 100 * reported,
                most=None if row.get("most") is None else 100 * row["most"],
                fetching=100 * (row.get("idle_while_fetching") or 0.0),
                idle=None
                if ready_ms is None or row.get("idle_ms") is None
                else 100 * (row["idle_ms"] - ready_ms) / row["step_ms"],
            )
        )
    return cases


def ready_outcome(measured: Measured) -> Outcome:
    """Judges what is reported though batches are ready."""
    ready = {
        name: 100 * row["reported"]
        for name, row in measured.items()
        if name.endswith(("/ready", "/transferred")) and row.get("reported") is not None
    }
    return largest("reported", ready, READY_POINTS)


def above_outcome(measured: Measured) -> Outcome:
    """Judges by how much more was reported than the idle time above that with ready batches."""
    above = {
        case.name: max(case.reported - case.idle, 0.0)
        for case in cases_of(measured)
        if case.way.startswith("1 step") and None not in (case.reported, case.idle)
    }
    return largest("reported too much by", above, POINTS["1 step"])


def stall_outcome(measured: Measured, way: str) -> Outcome:
    """Compares what was reported in one way of running with what the GPU did."""
    those = [case for case in cases_of(measured) if case.way == way]
    known = {case.name: case.off for case in those if case.off is not None}
    outcome, expected = largest("off by", known, POINTS[way]), len(WAYS[way][0])
    widths = [case.most - case.reported for case in those if None not in (case.most, case.reported)]
    if widths:
        ranges = (
            f"{outcome.evidence} {len(widths)} are ranges, up to {max(widths):.0f} "
            "percentage points wide."
        )
        outcome = replace(outcome, evidence=ranges)
    if outcome.holds is not False and len(known) < expected and those:
        missing = f"{len(known)} of {expected} cases have a figure. {outcome.evidence}"
        return Outcome(None if len(known) == len(those) else False, missing)
    if not (outcome.holds and way == "1 step, synchronous"):
        return outcome
    headline = (
        f"the reported input stall was within about {max(known.values()):.0f} percentage point of "
        "the GPU's measured idle time with one step per execution"
    )
    return replace(outcome, headline=headline)


def panel_outcome(measured: Measured) -> Outcome:
    """Judges the panels of runs on two replicas and of batches that are prefetched to a GPU."""
    rows = {
        name: row["panel"]
        for name, row in measured.items()
        if isinstance(row, dict) and row.get("panel")
    }
    if not rows:
        return Outcome(None, "no panel was kept")
    bad = [name for name, text in rows.items() if any(each in text for each in FRAMEWORK)]
    named = f" ({', '.join(bad)})" if bad else ""
    return Outcome(
        not bad, f"Panels with a message of TensorFlow: {len(bad)} of {len(rows)}{named}."
    )


def largest(what: str, points: dict[str, float], limit: float) -> Outcome:
    """Judges whether the largest of some percentages is within a limit."""
    if not points:
        return Outcome(None, "No case has a figure.")
    worst = max(points, key=lambda name: points[name])
    evidence = (
        f"Of {len(points)} cases, {what} at most {points[worst]:.1f} percentage points ({worst})."
    )
    return Outcome(points[worst] <= limit, evidence)


EXPECTED = {
    "8 steps": "on twelve input pipelines with known delays and 8 steps per execution, "
    "`InputStall` reports the time in which the GPU idles while a batch is fetched, as a profile "
    "shows it, to within 5 percentage points, or a range that does",
    "to device": "with `prefetch_to_device`, on a fast and on a slow pipeline, `InputStall` "
    "reports the time that the GPU idles longer than with ready batches, to within 5 percentage "
    "points",
    "mirrored": "under `MirroredStrategy` on two logical GPUs, on a fast and on a slow pipeline, "
    "to within 3 percentage points",
    "1 step": "on the twelve pipelines with one step per execution, to within 3 percentage points",
    "1 step, synchronous": "the same where Keras waits for each step's loss, as with callbacks "
    "that are not `async_safe`, to within 3 percentage points",
    "8 steps, synchronous": "the same with 8 steps per execution, to within 5 percentage points",
    "1 step, jit": "the same with jit and one step per execution, to within 3 percentage points",
    "8 steps, jit": "the same with jit and 8 steps per execution, to within 5 percentage points",
}
RANGE = (
    "fetches that computing hides no longer count. With these figures' clocks, the range that is "
    "reported holds the idle time (`tests/input/wait/test_recorded_executions.py`)."
)
CORRECTED = {f"8 steps, {each}": (f"{each}:ddfb3fdf85e9", RANGE) for each in ("synchronous", "jit")}
PART = Part(
    "stall",
    "Is the reported input stall the time in which the GPU idles for want of a batch?",
    {
        "8-steps": slice_of("8 steps"),
        "to-device": slice_of("to device", seconds=30),
        "mirrored": slice_of("mirrored", seconds=40),
        "1-step": slice_of("1 step"),
        "synchronous": slice_of("1 step, synchronous", "8 steps, synchronous"),
        "jit": slice_of("1 step, jit", "8 steps, jit"),
    },
    (
        *(
            Claim(
                way,
                EXPECTED[way],
                partial(stall_outcome, way=way),
                corrected=CORRECTED.get(way, ("", "")),
            )
            for way in WAYS
        ),
        Claim(
            "ready",
            "if batches are ready, at most 1 percentage point is reported, even if each takes long "
            "to reach the GPU",
            ready_outcome,
        ),
        Claim(
            "above_ready",
            "with one step per execution no more stall is reported than the GPU idles longer than "
            "with ready batches, within 3 percentage points: what it idles beyond the stall is "
            "contention, as Python code of the pipeline competes with the launch of the step",
            above_outcome,
        ),
        Claim(
            "mirrored_panel",
            "no message of TensorFlow is in the panel of a run on two replicas, or of one whose "
            "batches are prefetched to the GPU",
            panel_outcome,
        ),
    ),
)
