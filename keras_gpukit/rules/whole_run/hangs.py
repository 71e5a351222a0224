"""Times in which no step ended, and what the process waited for meanwhile."""

from __future__ import annotations

from dataclasses import replace

from keras_gpukit.errors import one_line
from keras_gpukit.records.hang import Hang
from keras_gpukit.records.run import RunSummary
from keras_gpukit.rules.rule import Outcome, Rule, figure
from keras_gpukit.rules.savings import of_run, severity

# The sampling thread looks about once a second.
ACCURACY_S = 2.0
_OF_INPUT = "waiting for input, "


class Hung(Rule):
    """A run in which no step ended for a minute, or for 20 usual steps if that is longer.

    Only times in which the process waited count. A long callback, tracing and compilation have
    rules of their own. The stacks of the threads show what the process waited for.
    """

    code = "hang"
    subject = "hangs"
    title = "No step ended for long"
    requires = "a run whose steps were watched once a second"

    def judge(self, summary: RunSummary) -> Outcome:
        """Names what the longest hang waited for."""
        if summary.hangs is None:
            return self.abstain()
        waits = [each for each in summary.hangs if each.is_wait]
        if not waits:
            return None
        total_s = sum(each.lasted_s or 0.0 for each in waits)
        longest = max(waits, key=lambda each: each.lasted_s or 0.0)
        longest_s = longest.lasted_s or 0.0
        saving = of_run(summary, total_s - ACCURACY_S * len(waits), total_s, basis="hangs")
        return self.find(
            severity(saving, summary),
            figure("hangs", len(waits)),
            figure("longest", longest_s, "s"),
            figure("after_step", longest.step),
            advice=(_advice(longest),),
            saving=saving,
            title=one_line(f"No step ended for {longest_s:.0f} s: {longest.activity}"),
        )


def with_hangs(summary: RunSummary, hangs: tuple[Hang, ...]) -> RunSummary:
    """Adds the hangs to a summary, as a part of the wall time of their own instead of compute.

    tf.data records no gaps of 10 s and more, so the pipeline's model has no wait for such a step.
    Other meters have measured a hang of the input as input.

    Args:
        summary: Summary of a run, without a verdict.
        hangs: Hangs of the run.
    """
    record, parts = summary.input, summary.breakdown
    summary = replace(summary, hangs=hangs)
    if record is None or parts is None or parts.compute_s is None:
        return summary
    is_measured = record.mechanism != "pipeline model"
    hung = [
        each.lasted_s or 0.0
        for each in hangs
        if each.is_wait and not (is_measured and each.activity.startswith(_OF_INPUT))
    ]
    moved_s = min(sum(hung), parts.compute_s)
    moved = replace(parts, compute_s=parts.compute_s - moved_s, hangs_s=moved_s)
    return replace(summary, input=replace(record, breakdown=moved))


def _advice(hang: Hang) -> str:
    if hang.activity.startswith(_OF_INPUT):
        place = hang.activity.removeprefix(_OF_INPUT).partition(", which")[0]
        return (
            f"See what {place} waits for, such as a network disk or a lock, and give it a time "
            "limit; the stacks are in gpukit/run.jsonl"
        )
    if hang.activity.endswith("another worker"):
        return "Look at the other workers' logs and records: one of them was late"
    return "See what the threads wait for: their stacks are in gpukit/run.jsonl"
