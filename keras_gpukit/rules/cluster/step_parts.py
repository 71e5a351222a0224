"""Where a step's time goes on each worker, on average over the steps measured on all of them."""

from __future__ import annotations

import statistics
from dataclasses import dataclass

from keras_gpukit.records.worker_comparison import WorkerComparison
from keras_gpukit.rules.cluster.lateness import common_steps


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
