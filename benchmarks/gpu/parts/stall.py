"""The input stall that `InputStall` reports, against the time in which the GPU really idled."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks.gpu.judging import judge_each
from benchmarks.gpu.part import Claim, Measured, Outcome, Part, attempt

CASES = (
    *(("serial", percent) for percent in (0, 25, 50, 90)),
    *((name, 50) for name in ("prefetched", "bursty", "parallel", "interleaved")),
    *((name, 50) for name in ("generator", "pydataset", "decode", "copy")),
)
"""Pipelines, and how much of a step each is to stall, in percent."""
FEW = (("serial", 0), ("serial", 50), ("prefetched", 50), ("generator", 50))
SMALL = {1: (("decode", 50), ("copy", 50)), 8: (("serial", 50),)}
WAYS = {"1 step": (1, False), "8 steps": (8, False)}
JIT_WAYS = {"1 step, jit": (1, True), "8 steps, jit": (8, True)}
STEP_S = 0.01
FIT_S = 1.5
"""Long enough for half a percentage point, short enough for a profile."""

POINTS = {1: 3.0, 8: 5.0}
"""By how many percentage points a stall may be wrong, by steps per execution."""
TO_DEVICE = " to device"
READY_POINTS = 1.0
IDLE_ENOUGH = 0.3
"""Share of the time in which a GPU idles that waits for launches."""
LAUNCH_FINDINGS = {"launch-bound", "tiny-steps"}


def measure(small: bool, folder: Path) -> Iterator[tuple[str, Any]]:
    """Fits the cases in each way of running, the most important ones first."""
    from benchmarks.gpu.stalled_fits import Way, launches
    from benchmarks.gpu.work import products_for

    busy = products_for(STEP_S / 4 if small else STEP_S)
    for name, (each, jit) in (WAYS | (JIT_WAYS if not small else {})).items():
        way = Way(busy, each, jit=jit, fit_s=0.05 if small else FIT_S)
        yield f"{name}/ready", way.ready()
        for pipeline, percent in SMALL[each] if small else FEW if jit else CASES:
            yield f"{name}/{pipeline} {percent}", attempt(way.stalled, pipeline, percent)
        if not (small or jit):
            for percent in (0, 50):
                row = attempt(way.stalled, "serial", percent, to_device=True)
                yield f"{name}/serial {percent}{TO_DEVICE}", row
        if (each, jit) == (1, False):
            yield f"{name}/transferred", attempt(way.transferred, 2**10 if small else 2**20)
            yield "launches", attempt(launches, 40 if small else 6000)


@dataclass(frozen=True)
class Case:
    """What was reported of a fit, and what the GPU did; all in percent of the step."""

    way: str
    name: str
    reported: float | None
    fetching: float
    """Idle time while a batch was fetched, as a profile shows it: the true stall."""
    idle: float
    """Idle time above that of the same step with batches that are ready: another reading."""


def cases_of(measured: Measured) -> list[Case]:
    """Returns the cases that show what the GPU did."""
    cases = []
    for name, row in measured.items():
        way, _, case = name.partition("/")
        ready_ms = measured.get(f"{way}/ready", {}).get("idle_ms")
        if case in ("", "ready", "transferred") or ready_ms is None or row.get("idle_ms") is None:
            continue
        reported = row["reported"]
        cases.append(
            Case(
                way=way,
                name=name,
                reported=None if reported is None else 100 * reported,
                fetching=100 * row["idle_while_fetching"],
                idle=100 * (row["idle_ms"] - ready_ms) / row["step_ms"],
            )
        )
    return cases


def judge(measured: Measured) -> dict[str, Outcome]:
    """Compares what was reported with what the GPU did."""
    found = cases_of(measured)
    cases = [case for case in found if not case.name.endswith(TO_DEVICE)]
    ready = {
        name: 100 * row["reported"]
        for name, row in measured.items()
        if name.endswith(("/ready", "/transferred")) and row.get("reported") is not None
    }
    of_one = {
        case.name: abs(case.reported - case.idle)
        for case in cases
        if case.way in ("1 step", "1 step, jit") and case.reported is not None
    }
    readings = {case.name: abs(case.idle - case.fetching) for case in found}
    outcomes = {
        "one_step": stall_outcome(cases, "1 step", len(CASES)),
        "one_step_jit": stall_outcome(cases, "1 step, jit", len(FEW)),
        "eight_steps": stall_outcome(cases, "8 steps", len(CASES)),
        "eight_steps_jit": stall_outcome(cases, "8 steps, jit", len(FEW)),
        "to_device": stall_outcome(
            [case for case in found if case.name.endswith(TO_DEVICE)], "1 step", 2
        ),
        "ready": largest("reported", ready, READY_POINTS),
        "above_ready": largest("off by", of_one, POINTS[1]),
        "profile_reading": largest("the two readings differ by", readings, POINTS[1]),
    }
    if outcomes["one_step"].holds:
        off = max(_off(cases, "1 step").values())
        headline = (
            f"the reported input stall was off by at most {off:.2f} percentage points from the "
            f"time in which the GPU idled while a batch was fetched ({len(CASES)} input pipelines, "
            "one step per execution)"
        )
        outcomes["one_step"] = replace(outcomes["one_step"], headline=headline)
    return outcomes | judge_each(measured, {"launch_bound": (("launches",), launch_outcome)})


def _off(cases: list[Case], way: str) -> dict[str, float]:
    return {
        case.name: abs(case.reported - case.fetching)
        for case in cases
        if case.way == way and case.reported is not None
    }


def stall_outcome(cases: list[Case], way: str, expected: int) -> Outcome:
    """Judges the reported stalls of one way of running."""
    known, there = _off(cases, way), sum(case.way == way for case in cases)
    outcome = largest("off by", known, POINTS[(WAYS | JIT_WAYS)[way][0]])
    if outcome.holds is not False and len(known) < expected and there:
        missing = f"{len(known)} of {expected} cases have a figure. {outcome.evidence}"
        return Outcome(False if there >= expected else None, missing)
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


def launch_outcome(row: Measured) -> Outcome:
    """Judges what `Monitor` and a capture say of a model that waits for launches."""
    if row["idle"] is None or row["idle"] < IDLE_ENOUGH:
        return Outcome(None, f"The GPU did not wait for launches: idle for {row['idle']}.")
    waits = {part: ms for part, ms in row["parts_ms"].items() if part != "device compute"}
    longest = max(waits, key=lambda part: waits[part])
    found = LAUNCH_FINDINGS & set(row["findings"])
    no_stall = "input-bound" not in row["findings"] and 100 * (row["reported"] or 0) <= READY_POINTS
    return Outcome(
        bool(found) and no_stall,
        f"The GPU idled {100 * row['idle']:.0f} % of the time; findings: "
        f"{', '.join(row['findings']) or 'none'}; reported stall: {row['reported']:.3f}; the "
        f"longest part of the captured step apart from compute: {longest}.",
    )


PART = Part(
    name="stall",
    question="Is the reported input stall the time in which the GPU idles for want of a batch?",
    minutes=5,
    claims=(
        Claim(
            "one_step",
            "on twelve input pipelines with known delays, `InputStall` reports the time in which "
            "the GPU idles while a batch is fetched, as a profile shows it, to within 3 percentage "
            "points",
            "a case that is further off, or without a figure",
        ),
        Claim(
            "one_step_jit",
            "the same on four pipelines with `jit_compile=True`",
            "a case that is further off, or without a figure",
        ),
        Claim(
            "eight_steps",
            "the same on twelve pipelines with 8 steps per execution, to within 5 percentage "
            "points",
            "a case that is further off, or without a figure",
        ),
        Claim(
            "eight_steps_jit",
            "the same on four pipelines with 8 steps per execution and jit",
            "a case that is further off, or without a figure",
        ),
        Claim(
            "to_device",
            "the same with `prefetch_to_device` on a slow and on a fast pipeline, one step per "
            "execution",
            "a case that is further off, or without a figure",
        ),
        Claim(
            "ready",
            "if batches are ready, at most 1 percentage point is reported, even if each takes long "
            "to reach the GPU",
            "more than 1 percentage point",
        ),
        Claim(
            "above_ready",
            "with one step per execution the reported stall is also the time that the GPU idles "
            "longer than with ready batches, to within 3 percentage points",
            "a case that is further off: waiting then also costs time outside the fetch",
        ),
        Claim(
            "profile_reading",
            "in a profile, the time in which a batch is fetched and the GPU idles is the time that "
            "the GPU idles longer than with ready batches, to within 3 percentage points",
            "a case in which the two differ by more",
        ),
        Claim(
            "launch_bound",
            "for a model whose operations take less time than their launch, a finding says so, and "
            "no input stall is reported although the GPU idles",
            "no such finding, a finding of an input bottleneck, or a stall over 1 percentage point",
        ),
    ),
    measure=measure,
    judge=judge,
)
