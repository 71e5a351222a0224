"""How the workers of a synchronous step compare: which is last, its links, a step's parts."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from keras_gpukit.records.worker_comparison import ComparedStep, WorkerComparison, WorkerFigures
from keras_gpukit.rules.rule import ONE_WORKER, NotApplicable, too_short

Cause = Literal["input", "compute"]

# Fewer steps say little about the run; our choice.
FEWEST_STEPS = 5
# Least delay, as a share of the step time. It is that of every warning on a part of the run; see
# `savings.WARNING_FRACTION`.
LATE_FRACTION = 0.10
# Share of the compared steps in which the same worker must arrive last. Of two equal workers, each
# is last in half of the steps; of four, in a quarter. Our choice.
LATE_STEPS = 2 / 3
# A worker's link is slow if its round trip is at least this multiple of that of links without the
# worker, and if a step's messages over it take at least this share of the step time; our choices.
SLOW_LINK_FACTOR = 3.0
SLOW_LINK_FRACTION = 0.05
FEWEST_READINGS = 3


@dataclass(frozen=True)
class Late:
    """A worker that the others wait for.

    Attributes:
        member: The worker.
        cause: Why it is late: "input" or "compute"; None if unknown.
        low_s: Lower quartile of its delay behind the last of the others, in seconds per step.
        median_s: Median of that delay.
        high_s: Upper quartile of that delay.
        own_s: Seconds per step that the cause takes on it; if the cause is unknown, all of its
            step but the collectives.
        others_s: Median of the same time on the other workers.
        step_s: Median step time of all workers.
        steps: Number of steps that the figures come from.
    """

    member: WorkerFigures
    cause: Cause | None
    low_s: float
    median_s: float
    high_s: float
    own_s: float
    others_s: float
    step_s: float
    steps: int


@dataclass(frozen=True)
class SlowLink:
    """A worker whose messages take longer than those among the others.

    Attributes:
        member: The worker.
        round_trip_s: Round trip over its fastest link.
        others_s: Median round trip over the links without it.
        ring_s: Least time that an all-reduce loses because of it, in seconds per step.
    """

    member: WorkerFigures
    round_trip_s: float
    others_s: float
    ring_s: float


def common_steps(comparison: WorkerComparison) -> tuple[tuple[ComparedStep, ...], ...]:
    """Returns the steps that are known of every member, each with the members' figures in order."""
    by_member = [{each.step: each for each in member.compared} for member in comparison.members]
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
    missing = next(filter(None, (each.compared_unknown_because for each in comparison.members)), "")
    return missing or too_short(
        f"{steps} of the {FEWEST_STEPS} steps needed are known of each {comparison.kind}"
    )


def late_member(comparison: WorkerComparison) -> Late | None:
    """Returns the member that the others wait for in most steps; None if no member is late.

    The compared steps decide if there are enough of them. If not, or if no member is late in them,
    the input wait over the whole run decides.
    """
    return _by_steps(comparison) or _by_waits(comparison)


def margins_of(comparison: WorkerComparison, place: int) -> list[float]:
    """Returns a member's delays behind the last of the others, in all compared steps, sorted."""
    steps = common_steps(comparison)
    return sorted(_margin_s([each.busy_s for each in step], place) for step in steps)


def exchange_s(comparison: WorkerComparison) -> float | None:
    """Returns the median time per step in collectives after every member has arrived.

    The member that arrives last waits for none of the others, so its time in collectives is that of
    the exchange. None if there are too few compared steps.
    """
    steps = common_steps(comparison)
    if len(steps) < FEWEST_STEPS:
        return None
    return statistics.median(min(each.collective_s for each in step) for step in steps)


def step_s(comparison: WorkerComparison) -> float | None:
    """Returns the members' median step time, of compared steps if there are any, else of all."""
    compared = [each.duration_s for step in common_steps(comparison) for each in step]
    means = [each.step_time_s for each in comparison.members if each.step_time_s is not None]
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
    found = [_slow_link(comparison, member, links) for member in comparison.members]
    slow = [each for each in found if each is not None]
    return max(slow, key=lambda each: each.round_trip_s, default=None)


def _slow_link(
    comparison: WorkerComparison, member: WorkerFigures, links: dict[frozenset[int], float]
) -> SlowLink | None:
    own = [trip_s for ends, trip_s in links.items() if member.index in ends]
    rest = [trip_s for ends, trip_s in links.items() if member.index not in ends]
    of_s = step_s(comparison)
    if len(own) < 2 or not rest or of_s is None:
        return None
    round_trip_s, others_s = min(own), statistics.median(rest)
    # A ring all-reduce sends 2 (n - 1) messages one after the other, and each takes half a round
    # trip (the ring model, Patarasuk and Yuan 2009).
    ring_s = (len(comparison.members) - 1) * (round_trip_s - others_s)
    if round_trip_s < SLOW_LINK_FACTOR * others_s or ring_s < SLOW_LINK_FRACTION * of_s:
        return None
    return SlowLink(member, round_trip_s, others_s, ring_s)


def _by_steps(comparison: WorkerComparison) -> Late | None:
    steps = common_steps(comparison)
    if len(steps) < FEWEST_STEPS:
        return None
    of_s = statistics.median(each.duration_s for step in steps for each in step)
    for place, member in enumerate(comparison.members):
        margins_s = margins_of(comparison, place)
        last = sum(margin_s > 0 for margin_s in margins_s) / len(steps)
        median_s = statistics.median(margins_s)
        if last < LATE_STEPS or median_s < LATE_FRACTION * of_s:
            continue
        cause, own_s, others_s = _cause(comparison, steps, place)
        return Late(
            member,
            cause,
            max(margins_s[len(margins_s) // 4], 0.0),
            median_s,
            margins_s[-1 - len(margins_s) // 4],
            own_s,
            others_s,
            of_s,
            len(steps),
        )
    return None


def _cause(
    comparison: WorkerComparison, steps: Sequence[Sequence[ComparedStep]], place: int
) -> tuple[Cause | None, float, float]:
    """Returns why a member is late, and the time this takes in its step and in the others' steps.

    The cause is the input wait if it accounts for half of the difference, otherwise the member's
    own compute. It is None if a wait is unknown.
    """
    busy_s = [statistics.median(step[at].busy_s for step in steps) for at in range(len(steps[0]))]
    own_s, others_s = _apart(busy_s, place)
    waits_s = [
        _wait_s(member, [step[at] for step in steps])
        for at, member in enumerate(comparison.members)
    ]
    known = [wait_s for wait_s in waits_s if wait_s is not None]
    if len(known) < len(waits_s):
        return None, own_s, others_s
    wait_s, others_wait_s = _apart(known, place)
    if wait_s - others_wait_s >= (own_s - others_s) / 2:
        return "input", wait_s, others_wait_s
    return "compute", own_s - wait_s, others_s - others_wait_s


def _wait_s(member: WorkerFigures, steps: Sequence[ComparedStep]) -> float | None:
    """Returns a member's input wait per step: of the compared steps or, if unknown, of all."""
    known = [step.input_s for step in steps if step.input_s is not None]
    return statistics.median(known) if len(known) == len(steps) else member.input_wait_s


def _apart(times_s: Sequence[float], place: int) -> tuple[float, float]:
    """Returns one of several times, and the median of the others."""
    return times_s[place], statistics.median(_others(times_s, place))


def _others(times_s: Sequence[float], place: int) -> list[float]:
    return [*times_s[:place], *times_s[place + 1 :]]


def _by_waits(comparison: WorkerComparison) -> Late | None:
    waits_s = [each.input_wait_s for each in comparison.members]
    known = [wait_s for wait_s in waits_s if wait_s is not None]
    of_s = step_s(comparison)
    if len(known) < len(waits_s) or len(known) < 2 or of_s is None:
        return None
    place = max(range(len(known)), key=known.__getitem__)
    margin_s = _margin_s(known, place)
    if margin_s < LATE_FRACTION * of_s:
        return None
    member = comparison.members[place]
    wait_s, others_s = _apart(known, place)
    steps = member.steps or 0
    return Late(member, "input", margin_s, margin_s, margin_s, wait_s, others_s, of_s, steps)


def _margin_s(times_s: Sequence[float], place: int) -> float:
    """Returns by how much one time exceeds the longest of the others; negative if it is shorter."""
    return times_s[place] - max(_others(times_s, place))


@dataclass(frozen=True)
class StepParts:
    """Parts of one worker's step, on average. Unknown parts are None.

    Attributes:
        input_s: Time waiting for the batch.
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
    parts = []
    for place, member in enumerate(comparison.members):
        wait_s = member.input_wait_s
        if not steps:
            parts.append(StepParts(wait_s))
            continue
        busy_s = statistics.fmean(step[place].busy_s for step in steps)
        exchange_s = statistics.fmean(min(each.collective_s for each in step) for step in steps)
        in_collectives_s = statistics.fmean(step[place].collective_s for step in steps)
        parts.append(
            StepParts(
                wait_s,
                max(busy_s - (wait_s or 0.0), 0.0),
                in_collectives_s - exchange_s,
                exchange_s,
            )
        )
    return tuple(parts)
