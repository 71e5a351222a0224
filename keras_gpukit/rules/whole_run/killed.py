"""Whether a run's process was killed, and what it was doing."""

from __future__ import annotations

from keras_gpukit.records.finding import Finding
from keras_gpukit.records.run import RunSummary
from keras_gpukit.records.steps import Progress
from keras_gpukit.rules.rule import Outcome, Rule
from keras_gpukit.rules.whole_run.endings import HostOutOfMemory


class Killed(Rule):
    """A run whose record stops without an end.

    There is no threshold. A process that ends by itself, even by an exception, records the end.
    """

    code = "killed"
    subject = "errors"
    title = "The process was killed"
    requires = "a run without a record of its end"
    comes_first = "always"
    ends_run = judges_first_step = True

    def judge(self, summary: RunSummary) -> Outcome:
        """Says what the process was doing last."""
        if summary.killed_in is None:
            return self.abstain() if summary.ending is None else None
        if isinstance(HostOutOfMemory().judge(summary), Finding):
            return self.abstain("the host likely ran out of memory")
        return self.find(
            "critical",
            advice=(
                "Ask what killed it: journalctl -k | grep -i 'killed process' (out of memory), or "
                "sacct -j JOB (time limit, preemption)",
                'Let it continue: `fit(callbacks=[keras.callbacks.BackupAndRestore("backup")])`',
            ),
            title=f"{self.title} while {doing(summary.killed_in)}",
        )


def doing(progress: Progress) -> str:
    """Describes a run's latest activity: "training, at step 1,240 in epoch 2 of 3"."""
    epoch = "" if progress.epoch is None else f"epoch {progress.epoch:,}"
    if epoch and progress.epochs is not None:
        epoch += f" of {progress.epochs:,}"
    step = f"step {progress.step:,}"
    if progress.part == "first step":
        return "in its first step, which fetches a batch, traces and compiles"
    if progress.part == "epoch start":
        return f"starting the input pipeline of {epoch or 'its data'}, after {step}"
    if progress.part == "validation":
        return f"validating after {step}" + (f", in {epoch}" if epoch else "")
    if progress.part == "steps":
        name = {"fit": "training", "evaluate": "evaluating", "predict": "predicting"}
        return f"{name[progress.phase]}, at {step}" + (f" in {epoch}" if epoch else "")
    if progress.part == "callbacks":
        return f"in callbacks, after {step}" + (f", in {epoch}" if epoch else "")
    return f"at the end of {epoch or 'an epoch'}, after {step}"
