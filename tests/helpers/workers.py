"""Made-up workers of a synchronous run, next to each other."""

from dataclasses import replace

from helpers.recorded_runs import BEGAN_S, SUMMARY, run_lines, write_lines
from keras_gpukit.records import (
    ComparedStep,
    RoundTrip,
    RunHeader,
    Worker,
    WorkerComparison,
    WorkerFigures,
)
from keras_gpukit.rules import judge

STEP_S = 0.100
EXCHANGE_S = 0.004


def steps(busy_s, input_s=0.0, *, numbers=range(21, 39), exchange_s=EXCHANGE_S, slowest_s=None):
    """Steps of a worker that is at the collectives after `busy_s`, of which it waits for input.

    The exchange begins once the last worker is there, after `slowest_s`.
    """
    arrives_s = slowest_s or busy_s
    duration_s = max(busy_s, arrives_s) + exchange_s
    return tuple(ComparedStep(step, duration_s, input_s, duration_s - busy_s) for step in numbers)


def cluster(*members, kind="worker", expected=None):
    """A comparison of members, complete unless `expected` says otherwise."""
    return WorkerComparison(tuple(members), expected or len(members), kind)


def four(culprit=2, *, extra_s=0.0, extra_input_s=0.0, base_s=0.020, jitter_s=0.001, **exchange):
    """Four workers whose steps differ a little, one of them with more to do or to wait for."""
    slowest_s = base_s + extra_s + extra_input_s + 3 * jitter_s
    return cluster(
        *(
            WorkerFigures(
                index,
                steps=200,
                step_time_s=slowest_s + exchange.get("exchange_s", EXCHANGE_S),
                compared=steps(
                    base_s
                    + jitter_s * (index if index != culprit else 0)
                    + (extra_s + extra_input_s if index == culprit else 0.0),
                    0.001 + (extra_input_s if index == culprit else 0.0),
                    slowest_s=slowest_s,
                    **exchange,
                ),
            )
            for index in range(4)
        )
    )


def ring(slow=None, *, slow_s=0.010, normal_s=0.0005, readings=9):
    """Round trips of four workers to the next two; those with a slow one take longer."""
    return {
        index: tuple(
            RoundTrip(
                peer,
                slow_s if slow in (index, peer) else normal_s * (1 + 0.2 * index),
                slow_s if slow in (index, peer) else 3 * normal_s,
                readings,
            )
            for peer in ((index + 1) % 4, (index + 2) % 4)
        )
        for index in range(4)
    }


LATE = four(2, extra_s=0.020).members


def write_worker(folder, index, members=LATE, *, began_s=BEGAN_S, summary=True, name=None):
    """Writes what one of four workers records, with its own figures only."""
    alone = WorkerComparison((members[index],), 4, unknown_because="the chief compares")
    own = replace(SUMMARY, workers=alone)
    lines = run_lines(8, summary=replace(own, verdict=judge(own)) if summary else None)
    later_s = began_s - BEGAN_S
    lines = [(time_s + later_s, *rest) for time_s, *rest in lines]
    lines[0] = (began_s, None, "run", RunHeader(1, began_s, Worker("worker", index, 4)))
    write_lines(folder, lines, name or f"run-{index}")
