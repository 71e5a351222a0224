"""Whether workers get different amounts of data."""

from __future__ import annotations

from keras_gpukit.records.run import RunSummary
from keras_gpukit.rules.cluster.lateness import unknown_because
from keras_gpukit.rules.rule import Outcome, Rule, figure
from keras_gpukit.rules.savings import of_run, severity, time_of_steps_s

# Smallest loss that counts, as a share of the steps: one in twenty; our choice.
SMALLEST_LOSS = 0.05


class UnevenShards(Rule):
    """Workers that train on different numbers of examples, so that some idle while others train.

    A synchronous run takes as many steps as the worker with the most data; workers that run out of
    data take part with empty batches. With even shards, every worker would have the mean number of
    examples. So the lost share is 1 - mean / largest number. It counts from 5 % of the steps on
    (our choice) and from a difference of two batches on, since the rest of the data is always
    uneven.
    """

    code = "uneven-shards"
    subject = "workers"
    title = "The workers get different amounts of data"
    requires = "the number of examples that every worker trained on"

    def judge(self, summary: RunSummary) -> Outcome:
        """Compares the numbers of examples of all workers."""
        comparison = summary.workers
        if comparison is None or not comparison.is_complete:
            return self.abstain(unknown_because(comparison))
        members = comparison.members
        counts = [each.examples for each in members if each.examples is not None]
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
            figure("examples_of", float(each.examples or 0), of=f"{comparison.kind} {each.index}")
            for each in members
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
