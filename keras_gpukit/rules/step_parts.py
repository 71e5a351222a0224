"""Where a step's time goes on each worker, on average over the steps that all of them measured."""

from __future__ import annotations

import statistics
from dataclasses import dataclass

from keras_gpukit.records.worker_comparison import WorkerComparison
from keras_gpukit.rules.lateness import common_steps


@dataclass(frozen=True)
class StepParts:
    """One worker's step. What is not known is None.

    Attributes:
        input_s: Waiting for its batch.
        compute_s: Computing, and Python between the steps; with the wait where that is unknown.
        waiting_s: At collectives, until the last worker is there.
        exchange_s: At collectives, from then on.
    """

    input_s: float | None = None
    compute_s: float | None = None
    waiting_s: float | None = None
    exchange_s: float | None = None


def step_parts(comparison: WorkerComparison) -> tuple[StepParts, ...]:
    """Returns the parts for each member, in their order."""
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
