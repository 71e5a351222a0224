"""Whether no step ended for long, first or later, and what the process did meanwhile."""

from __future__ import annotations

from dataclasses import replace

from keras_gpukit.errors import one_line
from keras_gpukit.records.event import Hang
from keras_gpukit.records.machine import mean_busy_percent
from keras_gpukit.records.run import RunSummary
from keras_gpukit.rules.rule import Measure, Outcome, Rule, gpu_readings, host_readings
from keras_gpukit.rules.savings import of_run, severity

LEAST_S = 10.0
"""Shortest time that is reported. Our choice: tracing a large model takes about as long."""
BUSY_CORES, WAITING_CORES = 0.5, 0.2
"""Cores that a process at work keeps busy at least, and one that waits at most. Our choice: tracing
and most of XLA's compilation run on one core."""
IDLE_PERCENT = 5.0
"""Highest mean utilization of GPUs that count as idle. Our choice."""
TRIAL = "For a trial, `model.compile(jit_compile=False)`: the step is then only traced"
FEWER_SHAPES = (
    "Use few shapes of batches: `drop_remainder=True`, padding to few lengths. XLA compiles the "
    "step for each shape"
)
CACHE = (
    "Keep what XLA compiled for the next process, in a folder for this GPU and TensorFlow version: "
    "`export TF_XLA_FLAGS=--tf_xla_persistent_cache_directory=FOLDER`"
)
TRACING = "A smaller model traces faster: compare with fewer layers or blocks"
INPUT = (
    "See how long the first batch takes: `next(iter(dataset))`. A shuffle buffer is filled first"
)


class FirstStepNotOver(Rule):
    """A run whose first step has not ended after 10 s, or had not when the run ended."""

    code = "first-step-not-over"
    title = "No step has ended"
    requires = "a run that is in its first step, or ended in it"
    charts = ("busy", "timeline")
    judges_first_step = True
    in_the_first_step = Measure("The first step has lasted {value}", "s")
    cores_busy = Measure(", with {value} cores busy")
    GPU_utilization = Measure(", and the GPUs {value} busy", "%")

    def judge(self, summary: RunSummary) -> Outcome:
        lasted_s = summary.first_step_s
        if lasted_s is None:
            return None if summary.steps else self.abstain()
        if summary.ended_kind not in (None, "stopped") or summary.out_of_memory is not None:
            return self.abstain("another exception ended the first step")
        if lasted_s < LEAST_S:
            return None
        figures = [self.in_the_first_step(lasted_s)]
        cores, gpus_percent = _busy_cores(summary), mean_busy_percent(gpu_readings(summary))
        if cores is not None:
            figures.append(self.cores_busy(cores))
        if gpus_percent is not None:
            figures.append(self.GPU_utilization(gpus_percent))
        doing, advice = _doing(summary, cores, gpus_percent)
        title = f"{self.title} after {lasted_s:.0f} s: the first one {doing}"
        return self.find("warning", *figures, advice=advice, title=title)


def _busy_cores(summary: RunSummary) -> float | None:
    host, cores = host_readings(summary), summary.environment.cpu_count
    if host is None or host.process_cpu_percent is None or cores is None:
        return None
    return host.process_cpu_percent / 100 * cores


def _doing(
    summary: RunSummary, cores: float | None, gpus_percent: float | None
) -> tuple[str, tuple[str, ...]]:
    """Returns what the first step likely does, by what evidence, and how to shorten it."""
    compiles = summary.environment.jit_compile
    shorten = (TRIAL, FEWER_SHAPES, CACHE) if compiles else (TRACING,)
    if cores is None or WAITING_CORES < cores < BUSY_CORES or (gpus_percent or 0) > IDLE_PERCENT:
        return "is traced or compiled, or waits for its batch", (*shorten, INPUT)
    if cores <= WAITING_CORES:
        others = " or for the other workers" if summary.environment.workers > 1 else ""
        return f"likely waits for its batch{others}, as the process is idle", (INPUT,)
    idle = "" if gpus_percent is None else " and the GPUs idle"
    busy = f"as {cores:.1f} cores are busy{idle}"
    if compiles:
        return f"is likely traced and compiled by XLA (jit_compile is on), {busy}", shorten
    return f"is likely traced, or its batch is made, {busy}", (*shorten, INPUT)


# The sampling thread looks about once a second.
ACCURACY_S = 2.0


class Hung(Rule):
    """A run in which no step ended for a minute, or for 20 usual steps if that is longer."""

    code = "hang"
    title = "No step ended for long"
    requires = "a run whose steps were watched once a second"
    charts = ("timeline", "busy")
    supersedes = ("low-compute-share: hangs",)
    hangs = Measure("{value} times no step ended for a minute or more")
    longest = Measure(", the longest for {value}", "s")
    after_step = Measure(", after step {value}")

    def judge(self, summary: RunSummary) -> Outcome:
        if summary.hangs is None:
            return self.abstain()
        waits = [each for each in summary.hangs if each.kind != "work"]
        if not waits:
            return None
        total_s = sum(each.lasted_s or 0.0 for each in waits)
        longest = max(waits, key=lambda each: each.lasted_s or 0.0)
        longest_s = longest.lasted_s or 0.0
        saving = of_run(summary, total_s - ACCURACY_S * len(waits), total_s, basis="hangs")
        return self.find(
            severity(saving, summary),
            self.hangs(len(waits)),
            self.longest(longest_s),
            self.after_step(longest.step),
            advice=(_advice(longest),),
            saving=saving,
            title=one_line(f"No step ended for {longest_s:.0f} s: {longest.activity}"),
        )


def with_hangs(summary: RunSummary) -> RunSummary:
    """Returns a summary whose hangs are a part of the wall time of their own instead of compute.

    tf.data records no gaps of 10 s and more, so the pipeline's model has no wait for such a step.
    Other meters have measured a hang of the input as input.
    """
    record, parts = summary.input, summary.breakdown
    if not summary.hangs or record is None or parts is None or parts.compute_s is None:
        return summary
    is_measured = record.mechanism != "pipeline model"
    hung = [
        each.lasted_s or 0.0
        for each in summary.hangs
        if each.kind != "work" and not (is_measured and each.input_place is not None)
    ]
    both_s = parts.compute_s + parts.hangs_s
    hangs_s = min(sum(hung), both_s)
    moved = replace(parts, compute_s=both_s - hangs_s, hangs_s=hangs_s)
    return replace(summary, input=replace(record, breakdown=moved))


def _advice(hang: Hang) -> str:
    if hang.input_place is not None:
        return (
            f"See what {hang.input_place} waits for, such as a network disk or a lock, and give it "
            "a time limit; the stacks are in gpukit/run.jsonl"
        )
    if hang.kind == "worker":
        return "Look at the other workers' logs and records: one of them was late"
    return "See what the threads wait for: their stacks are in gpukit/run.jsonl"
