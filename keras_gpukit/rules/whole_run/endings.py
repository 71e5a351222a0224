"""Why a run ended: no memory left on the host, an exception, or its process was killed."""

from __future__ import annotations

from keras_gpukit.records.run import RunSummary
from keras_gpukit.records.script import ScriptError
from keras_gpukit.records.steps import Progress
from keras_gpukit.rules.rule import Measure, Outcome, Rule, Share

HOST_NEARLY_FULL_FRACTION = 0.9


class EndingRule(Rule):
    """A rule on what ended a run."""

    comes_first = "always"
    ends_run = judges_first_step = True


class HostOutOfMemory(EndingRule):
    """A run that stopped without recording why, while the host's memory was at least 90 % full."""

    code = "host-out-of-memory"
    title = "The system likely ended the run because the host ran out of memory"
    requires = "a run without a record of its end, and a last reading of the host's memory"
    charts = ("host-memory",)
    supersedes = ("killed",)
    machine_memory_in_use = Share("{value} of the machine's memory is in use")
    container_limit_in_use = Share("{value} of the container's memory limit is in use")
    this_process = Measure(", this process {value}", "B")

    def judge(self, summary: RunSummary) -> Outcome:
        last = summary.host_at_end
        if last is None:
            return self.abstain() if summary.ending is None else None
        shares = []
        if last.memory_available_bytes is not None and last.memory_total_bytes:
            used = 1 - last.memory_available_bytes / last.memory_total_bytes
            shares.append((used, self.machine_memory_in_use))
        if last.memory_limit_used_bytes is not None and last.memory_limit_bytes:
            share = last.memory_limit_used_bytes / last.memory_limit_bytes
            shares.append((share, self.container_limit_in_use))
        if not shares:
            return self.abstain()
        fullest, measure = max(shares, key=lambda pair: pair[0])
        if fullest < HOST_NEARLY_FULL_FRACTION:
            return None
        evidence = [measure(fullest)]
        if last.memory_bytes is not None:
            evidence.append(self.this_process(last.memory_bytes))
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
    charts = ()

    def judge(self, summary: RunSummary) -> Outcome:
        error = summary.ended_by
        if error is None:
            ended = summary.script.ended_by if summary.script else None
            if ended is not None and ended.device is None and summary.out_of_memory is None:
                return self.find("critical", advice=advice_on(ended), title=title_of(ended))
            return None if summary.ending == "completed" else self.abstain()
        if summary.out_of_memory is not None or summary.ended_kind == "stopped":
            return None
        to_do = "The script's traceback shows the cause; all other figures cover what ran before"
        if summary.ended_kind == "signal":  # as when a scheduler preempts it
            to_do = (
                "Start it again where it ended: "
                '`callbacks=[keras.callbacks.BackupAndRestore("backup", save_freq=100)]`'
            )
        elif summary.ended_kind == "input":
            to_do = (
                "Read the data without training, which ends at the same example: "
                "`for batch in dataset: pass`"
            )
        where = f" ({summary.error_line})" if summary.error_line else ""
        says = f": {summary.error_message}" if summary.error_message else ""
        whole = f"{error}{where} ended the run{says}"
        return self.find("critical", advice=(to_do,), title=whole)


class Killed(EndingRule):
    """A run whose record stops without an end."""

    code = "killed"
    title = "The process was killed"
    requires = "a run without a record of its end"
    charts = ("timeline", "host-memory")

    def judge(self, summary: RunSummary) -> Outcome:
        if summary.killed_in is None:
            return self.abstain() if summary.ending is None else None
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


_PARTS = (
    "Call `predict` for a part of the data at a time and keep only what is needed of each result, "
    "such as `.argmax(-1)`",
    "Or let the model return less: its last layers can reduce the results on the device",
)
_KEPT = (
    "Keep NumPy arrays, which are in the host's memory: `append(result.numpy())`, and "
    "`float(loss)` of a loss",
    "Or keep only the few results that are needed",
)


def title_of(error: ScriptError) -> str:
    """Says what ended the script, where, and what took the memory if it ran out."""
    at = f" ({error.line})" if error.line else ""
    during = f" in {error.method}" if error.method else ""
    if error.device is None:
        return f"{error.kind}{during}{at} ended the script: {error.message}"
    ran_out = f"The script ran out of memory on {error.device}{during}"
    if _keeps_results(error):
        of = f" of {error.batches:,}" if error.batches else ""
        return (
            f"{ran_out}{at} after {error.batches_done:,}{of} batches: predict keeps the results of "
            "all batches on the device until it ends"
        )
    if error.kept is not None:
        adds = f" ({error.kept_line})" if error.kept_line else ""
        return (
            f"{ran_out}: {error.kept.name}{adds} keeps {error.kept.length:,} results on the "
            f"device, {error.kept.size_bytes / 2**20:,.0f} MiB"
        )
    asked = error.asked_bytes
    return ran_out + at + (f": asked for {asked / 2**20:,.0f} MiB" if asked else "")


def advice_on(error: ScriptError) -> tuple[str, ...]:
    """Returns ways to avoid the exception."""
    if error.device is None:
        return ("The script's traceback shows the cause",)
    if _keeps_results(error):
        return _PARTS
    if error.kept is not None:
        return _KEPT
    call = f"`batch_size` in `{error.method}`" if error.method else "batch on that line"
    return (f"A smaller {call}",)


def _keeps_results(error: ScriptError) -> bool:
    return error.method == "predict" and bool(error.batches_done)
