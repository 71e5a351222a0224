"""How the workers of a synchronous step compare: which is last, its links, a step's parts."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from keras_gpukit.records.cluster import ComparedStep, WorkerComparison, WorkerFigures
from keras_gpukit.rules.rule import ONE_WORKER, NotApplicable, too_short
from keras_gpukit.rules.savings import WARNING_FRACTION

Cause = Literal["input", "compute"]

FEWEST_STEPS = 5
"""Fewer steps say little about the run; our choice."""
LATE_STEPS = 2 / 3
"""Share of the compared steps in which the same worker must arrive last. Of two equal workers, each
is last in half of the steps; of four, in a quarter. Our choice."""
SLOW_LINK_FACTOR, SLOW_LINK_FRACTION = 3.0, 0.05
"""A worker's link is slow if its round trip is at least this multiple of that of links without the
worker, and if a step's messages over it take at least this share of the step time; our choices."""
FEWEST_READINGS = 3


@dataclass(frozen=True)
class Late:
    """A worker that the others wait for.

    Attributes:
        low_s: Lower quartile of its delay behind the last of the others, in seconds per step.
        cause: Why it is late: "input" or "compute"; None if unknown.
        own_s: Seconds per step that the cause takes on it; if the cause is unknown, all of its
            step but the collectives.
    """

    member: WorkerFigures
    low_s: float
    median_s: float
    high_s: float
    cause: Cause | None
    own_s: float
    others_s: float
    step_s: float
    steps: int


@dataclass(frozen=True)
class SlowLink:
    """A worker whose messages take longer than those among the others.

    Attributes:
        round_trip_s: Round trip over its fastest link.
        ring_s: Least time that an all-reduce loses because of it, in seconds per step.
    """

    member: WorkerFigures
    round_trip_s: float
    others_s: float
    ring_s: float


def common_steps(comparison: WorkerComparison) -> tuple[tuple[ComparedStep, ...], ...]:
    """Returns the steps that are known of every member, each with the members' figures in order."""
    by_member = [{step.step: step for step in member.compared} for member in comparison.members]
    if len(by_member) < 2:
        return ()
    shared = set.intersection(*(set(steps) for steps in by_member))
    return tuple(tuple(steps[step] for steps in by_member) for step in sorted(shared))


def unknown_because(comparison: WorkerComparison | None) -> str | NotApplicable | None:
    """Returns why members cannot be compared step by step; None if they can."""
    if comparison is None:
        return ONE_WORKER
    if not comparison.is_complete:
        return comparison.unknown_because or (
            f"{len(comparison.members)} of {comparison.expected or 'several'} "
            f"{comparison.kind}s are known"
        )
    steps = len(common_steps(comparison))
    if steps >= FEWEST_STEPS:
        return None
    missing = next(
        filter(None, (member.compared_unknown_because for member in comparison.members)), ""
    )
    return missing or too_short(
        f"{steps} of the {FEWEST_STEPS} steps needed are known of each {comparison.kind}"
    )


def late_member(comparison: WorkerComparison) -> Late | None:
    """Returns the member that the others wait for in most steps; None if no member is late.

    The compared steps decide if there are enough of them. If not, or if no member is late in them,
    the input wait over the whole run decides.
    """
    steps, of_s = common_steps(comparison), step_s(comparison)
    if of_s is None:
        return None
    for place, member in enumerate(comparison.members if len(steps) >= FEWEST_STEPS else ()):
        margins_s = margins_of(comparison, place)
        median_s = statistics.median(margins_s)
        is_last = sum(margin_s > 0 for margin_s in margins_s) >= LATE_STEPS * len(steps)
        if is_last and median_s >= WARNING_FRACTION * of_s:
            quarter = len(margins_s) // 4
            low_s, high_s = max(margins_s[quarter], 0.0), margins_s[-1 - quarter]
            why = _cause(comparison, steps, place)
            return Late(member, low_s, median_s, high_s, *why, of_s, len(steps))
    waits_s = [
        worker.input_wait_s for worker in comparison.members if worker.input_wait_s is not None
    ]
    if len(waits_s) < max(len(comparison.members), 2):
        return None
    place = waits_s.index(max(waits_s))
    margin_s = _margin_s(waits_s, place)
    if margin_s < WARNING_FRACTION * of_s:
        return None
    member = comparison.members[place]
    why = ("input", *_apart(waits_s, place))
    return Late(member, margin_s, margin_s, margin_s, *why, of_s, member.steps or 0)


def margins_of(comparison: WorkerComparison, place: int) -> list[float]:
    """Returns a member's delays behind the last of the others, in all compared steps, sorted."""
    steps = common_steps(comparison)
    return sorted(_margin_s([times.busy_s for times in step], place) for step in steps)


def exchange_s(comparison: WorkerComparison) -> float | None:
    """Returns the median time per step in collectives after every member has arrived.

    The member that arrives last waits for none of the others, so its time in collectives is that of
    the exchange. None if there are too few compared steps.
    """
    steps = common_steps(comparison)
    if len(steps) < FEWEST_STEPS:
        return None
    return statistics.median(min(times.collective_s for times in step) for step in steps)


def step_s(comparison: WorkerComparison) -> float | None:
    """Returns the members' median step time, of compared steps if there are any, else of all."""
    compared = [times.duration_s for step in common_steps(comparison) for times in step]
    means = [member.step_time_s for member in comparison.members if member.step_time_s is not None]
    return statistics.median(compared or means) if compared or means else None


def slow_link(comparison: WorkerComparison) -> SlowLink | None:
    """Returns the member with slow links to all others it was measured with; None if none has.

    It takes at least three members: with a single link, it is unknown which end is slow.
    """
    links: dict[frozenset[int], float] = {}
    for member in comparison.members:
        for trip in member.round_trips:
            if trip.readings >= FEWEST_READINGS and trip.peer != member.index:
                ends = frozenset((member.index, trip.peer))
                links[ends] = max(links.get(ends, 0.0), trip.lowest_s)
    of_s = step_s(comparison)
    slow = []
    for member in comparison.members:
        own = [trip_s for ends, trip_s in links.items() if member.index in ends]
        rest = [trip_s for ends, trip_s in links.items() if member.index not in ends]
        if len(own) < 2 or not rest or of_s is None:
            continue
        round_trip_s, others_s = min(own), statistics.median(rest)
        # A ring all-reduce sends 2 (n - 1) messages one after the other, and each takes half a
        # round trip (the ring model, Patarasuk and Yuan 2009).
        ring_s = (len(comparison.members) - 1) * (round_trip_s - others_s)
        if round_trip_s >= SLOW_LINK_FACTOR * others_s and ring_s >= SLOW_LINK_FRACTION * of_s:
            slow.append(SlowLink(member, round_trip_s, others_s, ring_s))
    return max(slow, key=lambda link: link.round_trip_s, default=None)


def _cause(
    comparison: WorkerComparison, steps: Sequence[Sequence[ComparedStep]], place: int
) -> tuple[Cause | None, float, float]:
    """Returns why a member is late, and the time this takes in its step and in the others' steps.

    The cause is the input wait if it accounts for half of the difference, otherwise the member's
    own compute. It is None if a wait is unknown: of the compared steps or, without them, of all.
    """
    busy_s, waits_s = [], []
    for member, own_steps in zip(comparison.members, zip(*steps, strict=True), strict=True):
        busy_s.append(statistics.median(step.busy_s for step in own_steps))
        known = [step.input_s for step in own_steps if step.input_s is not None]
        is_known = len(known) == len(own_steps)
        waits_s.append(statistics.median(known) if is_known else member.input_wait_s)
    own_s, others_s = _apart(busy_s, place)
    all_waits_s = [wait_s for wait_s in waits_s if wait_s is not None]
    if len(all_waits_s) < len(waits_s):
        return None, own_s, others_s
    wait_s, others_wait_s = _apart(all_waits_s, place)
    if wait_s - others_wait_s >= (own_s - others_s) / 2:
        return "input", wait_s, others_wait_s
    return "compute", own_s - wait_s, others_s - others_wait_s


def _apart(times_s: Sequence[float], place: int) -> tuple[float, float]:
    """Returns one of several times, and the median of the others."""
    return times_s[place], statistics.median([*times_s[:place], *times_s[place + 1 :]])


def _margin_s(times_s: Sequence[float], place: int) -> float:
    """Returns by how much one time exceeds the longest of the others; negative if it is shorter."""
    return times_s[place] - max([*times_s[:place], *times_s[place + 1 :]])


@dataclass(frozen=True)
class StepParts:
    """Parts of one worker's step, on average. Unknown parts are None.

    Attributes:
        compute_s: Time computing, and in Python between steps; includes an unknown input wait.
        waiting_s: Time in collectives until the last worker has arrived.
        exchange_s: Time in collectives after that.
    """

    input_s: float | None = None
    compute_s: float | None = None
    waiting_s: float | None = None
    exchange_s: float | None = None


def step_parts(comparison: WorkerComparison) -> tuple[StepParts, ...]:
    """Returns the parts of each member's step, in the order of the members."""
    steps = common_steps(comparison)
    if not steps:
        return tuple(StepParts(member.input_wait_s) for member in comparison.members)
    exchange_s = statistics.fmean(min(times.collective_s for times in step) for step in steps)
    parts = []
    for member, own in zip(comparison.members, zip(*steps, strict=True), strict=True):
        wait_s = member.input_wait_s
        busy_s = statistics.fmean(step.busy_s for step in own)
        in_collectives_s = statistics.fmean(step.collective_s for step in own)
        compute_s = max(busy_s - (wait_s or 0.0), 0.0)
        parts.append(StepParts(wait_s, compute_s, in_collectives_s - exchange_s, exchange_s))
    return tuple(parts)
