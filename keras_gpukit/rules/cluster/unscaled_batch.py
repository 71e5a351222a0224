"""Whether the global batch was not scaled up from one GPU to several."""

from __future__ import annotations

from keras_gpukit.records.machine import mean_busy_percent
from keras_gpukit.records.run import RunSummary
from keras_gpukit.rules.compute.launch_bound import LOW_PERCENT
from keras_gpukit.rules.input.input_bound import is_input_bound
from keras_gpukit.rules.memory.memory import ROOM_FRACTION, fullest_fraction
from keras_gpukit.rules.rule import (
    ONE_REPLICA,
    Outcome,
    Rule,
    figure,
    gpu_readings,
    gpu_readings_unknown_because,
)


class BatchNotScaled(Rule):
    """Replicas that share a batch so small that their GPUs are mostly idle and half empty.

    A dataset's batch is the global one: each of two replicas gets half of it. If it keeps the size
    that suited one GPU, each GPU has less to do, and the exchange of gradients comes on top. The
    size alone proves nothing. So the GPUs must also be under 50 % busy, as for `low-utilization`,
    not wait for input, and use at most half of their memory (our choice).
    """

    code = "batch-not-scaled"
    subject = "batch per replica"
    title = "The replicas share a batch that fits on one GPU"
    requires = "the examples of a step, readings of the GPUs, and their memory"

    def judge(self, summary: RunSummary) -> Outcome:
        """Looks at each replica's batch, and at how busy and how full the GPUs are."""
        replicas = summary.environment.replicas or 1
        if replicas == 1:
            return self.abstain(ONE_REPLICA)
        busy = mean_busy_percent(gpu_readings(summary))
        if busy is None:
            return self.abstain(gpu_readings_unknown_because(summary))
        batch, used = replica_batch(summary), fullest_fraction(summary)
        if batch is None or used is None:
            return self.abstain()
        if busy >= LOW_PERCENT or used > ROOM_FRACTION:
            return None
        if is_input_bound(summary) is not False:
            return self.abstain("the GPUs may wait for input")
        return self.find(
            "warning",
            figure("examples_per_replica_and_step", batch),
            figure("replicas", replicas),
            figure("GPUs_busy", busy, "%"),
            figure("memory_used_at_most", 100 * used, "%"),
            title=f"Each of {replicas} replicas gets only {batch:.0f} examples a step",
            advice=(
                f"Multiply the dataset's batch by the replicas: `ds.batch(batch_size * "
                f"{replicas})`",
                "Scale the learning rate with it, with a warm-up over the first epochs (Goyal et "
                "al., 2017)",
            ),
        )


def replica_batch(summary: RunSummary) -> float | None:
    """Returns the examples per step on each replica of this process; None if unknown."""
    throughput = summary.throughput
    if throughput is None or throughput.examples_per_s is None or throughput.step_time_s is None:
        return None
    of_process = throughput.examples_per_s * throughput.step_time_s
    environment = summary.environment
    return of_process / max((environment.replicas or 1) // environment.workers, 1)
