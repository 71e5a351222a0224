"""Why a run ended: no memory left on the host, an exception, or its process was killed."""

from __future__ import annotations

from keras_gpukit.records.finding import Finding
from keras_gpukit.records.run import RunSummary
from keras_gpukit.records.steps import Progress
from keras_gpukit.rules.rule import Outcome, Rule, figure, percent
from keras_gpukit.rules.whole_run.script_ended import advice, title

HOST_NEARLY_FULL_FRACTION = 0.9
# Exceptions with which users end a run on purpose.
ON_PURPOSE = ("KeyboardInterrupt", "SystemExit")
IN_INPUT = "in the input of"
"""Words of `RunSummary.ended_by` for exceptions of the input pipeline."""
SIGNAL = "SIGTERM"
"""Signal by which schedulers end a run, as when its time is up or it is preempted."""


class EndingRule(Rule):
    """A rule on what ended a run."""

    subject = "errors"
    comes_first = "always"
    ends_run = judges_first_step = True


class HostOutOfMemory(EndingRule):
    """A run that stopped without recording why, while the host's memory was at least 90 % full."""

    code = "host-out-of-memory"
    title = "The system likely ended the run because the host ran out of memory"
    requires = "a run without a record of its end, and a last reading of the host's memory"

    def judge(self, summary: RunSummary) -> Outcome:
        last = summary.host_at_end
        if last is None:
            return self.abstain() if summary.ending is None else None
        shares = []
        if last.memory_available_bytes is not None and last.memory_total_bytes:
            used = 1 - last.memory_available_bytes / last.memory_total_bytes
            shares.append(("machine_memory_in_use", used))
        if last.memory_limit_used_bytes is not None and last.memory_limit_bytes:
            share = last.memory_limit_used_bytes / last.memory_limit_bytes
            shares.append(("container_limit_in_use", share))
        if not shares:
            return self.abstain()
        key, fullest = max(shares, key=lambda each: each[1])
        if fullest < HOST_NEARLY_FULL_FRACTION:
            return None
        evidence = [percent(key, fullest)]
        if last.memory_bytes is not None:
            evidence.append(figure("this_process", last.memory_bytes, "B"))
        return self.find(
            "critical",
            *evidence,
            advice=(
                "To make sure, ask the system: `journalctl -k | grep -i 'killed process'`, or the "
                "container's state (OOMKilled)",
                "Smaller shuffle buffers; `cache()` to a file in place of memory; fewer workers",
                "Ask for more memory: --mem in Slurm, resources.limits.memory in Kubernetes",
            ),
        )


class EndedByError(EndingRule):
    """A run that ended with an exception raised in a step or a callback, or by SIGTERM."""

    code = "ended-by-error"
    title = "The run ended by an exception"
    requires = "the exception that ended the run"

    def judge(self, summary: RunSummary) -> Outcome:
        error = summary.ended_by
        if error is None:
            ended = summary.script.ended_by if summary.script else None
            if ended is not None and ended.device is None and summary.out_of_memory is None:
                return self.find("critical", advice=advice(ended), title=title(ended))
            return None if summary.ending == "completed" else self.abstain()
        if summary.out_of_memory is not None or error.startswith(ON_PURPOSE):
            return None
        to_do = "The script's traceback shows the cause; all other figures cover what ran before"
        if error.startswith(SIGNAL):
            to_do = (
                "Start it again where it ended: "
                '`callbacks=[keras.callbacks.BackupAndRestore("backup", save_freq=100)]`'
            )
        elif IN_INPUT in error:
            to_do = (
                "Read the data without training, which ends at the same example: "
                "`for batch in dataset: pass`"
            )
        where = f" ({summary.error_line})" if summary.error_line else ""
        says = f": {summary.error_message}" if summary.error_message else ""
        whole = f"{error}{where} ended the run{says}"  # of the message, the first 100 characters
        return self.find("critical", advice=(to_do,), title=whole)


class Killed(EndingRule):
    """A run whose record stops without an end."""

    code = "killed"
    title = "The process was killed"
    requires = "a run without a record of its end"

    def judge(self, summary: RunSummary) -> Outcome:
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
