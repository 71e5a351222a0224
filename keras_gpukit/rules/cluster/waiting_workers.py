"""Whether workers wait for one of them, for gradients or for data, or train alone."""

from __future__ import annotations

from keras_gpukit.records.cluster import WorkerComparison
from keras_gpukit.records.machine import mean_busy_percent
from keras_gpukit.records.run import RunSummary
from keras_gpukit.rules.cluster.compared_workers import (
    Late,
    SlowLink,
    exchange_s,
    late_member,
    slow_link,
    step_s,
    unknown_because,
)
from keras_gpukit.rules.compute.launch_bound import LOW_PERCENT
from keras_gpukit.rules.input.input_bound import is_input_bound
from keras_gpukit.rules.rule import (
    ONE_WORKER,
    Measure,
    Outcome,
    Rule,
    Share,
    gpu_readings,
    gpu_readings_unknown_because,
)
from keras_gpukit.rules.savings import WARNING_FRACTION, of_run, severity, time_of_steps_s
from keras_gpukit.rules.setup.gpus import ROOM_FRACTION, fullest_fraction

_TITLES = {
    "input": "{name} is a straggler: it waits for its input",
    "compute": "{name} is a straggler: its own compute takes longer",
    "network": "{name} is a straggler: its network is slow",
    None: "{name} is a straggler: it arrives last at the collectives",
}
_ADVICE = {
    "input": (
        "Fix the input pipeline of {name}: its own record names the slow stage",
        "Compare its disk, its cores and its share of the files with those of the others",
    ),
    "compute": (
        "Look for other programs, throttling and a slower device on {name}; its own record has "
        "their figures",
        "Give every {kind} the same work: equal devices, equal batches, no extra callbacks",
    ),
    None: (
        "Compare the input wait and the GPU of {name} with those of the others in its own record",
    ),
    "network": (
        "Check the link of {name}: interface, cable or switch port, a proxy, a distant rack",
        "Train without {name} if the link cannot be fixed",
    ),
}


class Straggler(Rule):
    """One worker, or replica, that arrives last at the collectives, and what makes it late."""

    code = "straggler"
    title = "One worker makes the others wait"
    requires = "the same steps of every worker, with their time in collectives"
    charts = ("workers", "stages")
    delay_of = Measure("In the median step {of} arrives {value} after the last of the others", "ms")
    of_a_step_of = Measure(", of a step of {value}", "ms")
    input_wait_of = Measure("The input wait of {of} takes {value} of its step", "ms")
    compute_of = Measure("The compute of {of} takes {value} of its step", "ms")
    time_to_arrive_of = Measure("The time to arrive of {of} takes {value} of its step", "ms")
    of_the_others = Measure(", that of the others {value}", "ms")
    steps_compared = Measure(", over {value} steps that were compared")
    round_trip_to = Measure("A round trip to {of} takes {value}", "ms")
    among_the_others = Measure(", one among the others {value}", "ms")
    exchange_in_a_step = Measure("Exchanging gradients takes {value} of a step", "ms")

    def judge(self, summary: RunSummary) -> Outcome:
        comparison = summary.workers
        if comparison is None or not comparison.is_complete:
            return self.abstain(unknown_because(comparison))
        late = late_member(comparison)
        if late is not None:
            return self._late(summary, comparison, late)
        link = slow_link(comparison)
        if link is not None:
            return self._slow_link(summary, comparison, link)
        because = unknown_because(comparison)
        return None if because is None else self.abstain(because)

    def _late(self, summary: RunSummary, comparison: WorkerComparison, late: Late) -> Outcome:
        name = f"{comparison.kind} {late.member.index}"
        steps = summary.steps or late.steps
        saving = of_run(
            summary, late.low_s * steps, late.high_s * steps, basis="how late it arrives"
        )
        how_severe = severity(saving, summary)
        if how_severe == "info":
            return None
        own = {"input": self.input_wait_of, "compute": self.compute_of}.get(
            late.cause or "", self.time_to_arrive_of
        )
        return self.find(
            how_severe,
            self.delay_of(1e3 * late.median_s, name),
            self.of_a_step_of(1e3 * late.step_s),
            own(1e3 * late.own_s, name),
            self.of_the_others(1e3 * late.others_s),
            self.steps_compared(late.steps),
            title=_TITLES[late.cause].format(name=name.capitalize()),
            advice=_advice(late.cause, name, comparison),
            saving=saving,
        )

    def _slow_link(
        self, summary: RunSummary, comparison: WorkerComparison, link: SlowLink
    ) -> Outcome:
        name = f"{comparison.kind} {link.member.index}"
        steps = summary.steps or 0
        exchanged_s = exchange_s(comparison)
        saving = of_run(
            summary,
            min(link.ring_s, link.ring_s if exchanged_s is None else exchanged_s) * steps,
            None if exchanged_s is None else exchanged_s * steps,
            basis="round trips and collectives",
        )
        figures = [
            self.round_trip_to(1e3 * link.round_trip_s, name),
            self.among_the_others(1e3 * link.others_s),
        ]
        if exchanged_s is not None:
            figures.append(self.exchange_in_a_step(1e3 * exchanged_s))
            figures.append(self.of_a_step_of(1e3 * (step_s(comparison) or 0.0)))
        return self.find(
            severity(saving, summary),
            *figures,
            title=_TITLES["network"].format(name=name.capitalize()),
            advice=_advice("network", name, comparison),
            saving=saving,
        )


def _advice(cause: str | None, name: str, comparison: WorkerComparison) -> tuple[str, ...]:
    return tuple(line.format(name=name, kind=comparison.kind) for line in _ADVICE[cause])


class CommunicationBound(Rule):
    """Collectives that take at least a tenth of the steps' time after every worker has arrived."""

    code = "communication-bound"
    title = "Exchanging gradients takes much of each step"
    requires = "the same steps of every worker, with their time in collectives"
    charts = ("workers",)
    exchange_in_a_step = Share("Exchanging gradients takes {value} of a step")
    that_is = Measure(", that is {value}", "ms")
    of_a_step_of = Straggler.of_a_step_of

    def judge(self, summary: RunSummary) -> Outcome:
        comparison = summary.workers
        because = unknown_because(comparison)
        if comparison is None or because is not None:
            return self.abstain(because)
        exchanged_s, of_s = exchange_s(comparison), step_s(comparison)
        if exchanged_s is None or not of_s:
            return self.abstain()
        if exchanged_s < WARNING_FRACTION * of_s:
            return None
        link = slow_link(comparison)
        if late_member(comparison) is None and link is not None:
            who = f"{comparison.kind} {link.member.index}"
            return self.abstain(f"the slow network of {who} explains it")
        all_s = exchanged_s * (summary.steps or 0)
        saving = of_run(summary, 0.0, all_s, basis="collectives", upper_bound=True)
        return self.find(
            "warning",
            self.exchange_in_a_step(exchanged_s / of_s),
            self.that_is(1e3 * exchanged_s),
            self.of_a_step_of(1e3 * of_s),
            advice=(
                f"A larger batch per {comparison.kind}: the same exchange serves more examples",
                "If a larger batch does not fit: `keras_gpukit.accumulate_gradients(model, "
                "micro_batches=4)`, which exchanges gradients once for all parts of a batch",
                "A faster network between the machines; on GPUs, NCCL over it",
            ),
            saving=saving,
        )


SMALLEST_LOSS = 0.05
"""Smallest loss that counts, as a share of the steps: one in twenty; our choice."""


class UnevenShards(Rule):
    """Workers that train on different numbers of examples, so that some idle while others train."""

    code = "uneven-shards"
    title = "The workers get different amounts of data"
    requires = "the number of examples that every worker trained on"
    charts = ("workers",)
    examples_of = Measure("{of} trained on {value} examples")

    def judge(self, summary: RunSummary) -> Outcome:
        comparison = summary.workers
        if comparison is None or not comparison.is_complete:
            return self.abstain(unknown_because(comparison))
        members = comparison.members
        counts = [member.examples for member in members if member.examples is not None]
        most = max(counts, default=0)
        if len(counts) < len(members) or not most:
            return self.abstain()
        lost = 1 - sum(counts) / len(counts) / most
        batch = most / max(summary.steps or 0, 1)
        if lost < SMALLEST_LOSS or most - min(counts) < 2 * batch:
            return None
        lost_s = lost * time_of_steps_s(summary)
        saving = of_run(summary, 0.0, lost_s, basis="examples of each worker", upper_bound=True)
        named = [
            self.examples_of(float(member.examples or 0), f"{comparison.kind} {member.index}")
            for member in members
        ]
        return self.find(
            severity(of_run(summary, lost_s, lost_s, basis=""), summary),
            min(named, key=lambda figure: figure.value),
            max(named, key=lambda figure: figure.value),
            advice=(
                "Shard by example, not by file: "
                "`options.experimental_distribute.auto_shard_policy = "
                "tf.data.experimental.AutoShardPolicy.DATA`",
                f"Or write the data to a multiple of {len(members)} files of equal size",
                "`ds.batch(..., drop_remainder=True)`, and steps_per_epoch that every worker has",
            ),
            saving=saving,
        )


class WorkersTrainAlone(Rule):
    """A process that is a worker of a cluster but has no strategy that connects the workers."""

    code = "workers-not-connected"
    title = "No strategy connects the workers: each trained the whole model alone"
    requires = "the process's place in its cluster, and its strategy"
    charts = ()
    workers = Measure("The job has {value} workers")

    def judge(self, summary: RunSummary) -> Outcome:
        environment = summary.environment
        worker = environment.worker
        if worker is None or environment.replicas is None:
            return self.abstain(ONE_WORKER if worker is None else None)
        if not environment.trains_alone:
            return None
        return self.find(
            "warning",
            *(() if worker.count is None else (self.workers(worker.count),)),
            advice=(
                '`keras_gpukit.configure_gpus(strategy="auto")` before TensorFlow starts its '
                "devices, and the model made and compiled in `with setup.scope():`",
                "Without a change of the script: `keras-gpukit launch --workers "
                f"{worker.count or 'N'} -m keras_gpukit run --strategy auto SCRIPT`",
            ),
        )


class BatchNotScaled(Rule):
    """Replicas that share a batch so small that their GPUs are mostly idle and half empty."""

    code = "batch-not-scaled"
    title = "The replicas share a batch that fits on one GPU"
    requires = "the examples of a step, readings of the GPUs, and their memory"
    charts = ("busy", "device-memory")
    examples_per_replica_and_step = Measure("Each replica gets {value} examples a step")
    replicas = Measure(", with {value} replicas")
    GPUs_busy = Measure("The GPUs are busy {value} of the time", "%")
    memory_used_at_most = Measure("At most {value} of their memory is used", "%")

    def judge(self, summary: RunSummary) -> Outcome:
        replicas = summary.environment.replicas or 1
        if replicas == 1:
            return self.abstain(ONE_WORKER)
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
            self.examples_per_replica_and_step(batch),
            self.replicas(replicas),
            self.GPUs_busy(busy),
            self.memory_used_at_most(100 * used),
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
    if summary.examples_per_s is None or summary.step_time_s is None:
        return None
    of_process, environment = summary.examples_per_s * summary.step_time_s, summary.environment
    return of_process / max((environment.replicas or 1) // environment.workers, 1)
