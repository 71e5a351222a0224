"""Whether steps do not end, or compute takes too small a share of the time; and what does."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from keras_gpukit.errors import one_line
from keras_gpukit.records.event import Hang
from keras_gpukit.records.finding import Finding, Severity
from keras_gpukit.records.machine import mean_busy_percent
from keras_gpukit.records.run import RunSummary
from keras_gpukit.records.steps import TIME_PARTS, TimeBreakdown, TimePart
from keras_gpukit.rules.compute.dominant_layer import BY_CLASS
from keras_gpukit.rules.input.python_advice import ONE_PIPELINE
from keras_gpukit.rules.rule import (
    Measure,
    Outcome,
    Rule,
    Share,
    gpu_readings,
    host_readings,
    seconds,
)
from keras_gpukit.rules.savings import of_run, severity
from keras_gpukit.rules.whole_run.time_parts import TimeRule

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
        host, count = host_readings(summary), summary.environment.cpu_count
        cores, gpus_percent = None, mean_busy_percent(gpu_readings(summary))
        if host is not None and host.process_cpu_percent is not None and count is not None:
            cores = host.process_cpu_percent / 100 * count
            figures.append(self.cores_busy(cores))
        if gpus_percent is not None:
            figures.append(self.GPU_utilization(gpus_percent))
        doing, advice = _doing(summary, cores, gpus_percent)
        title = f"{self.title} after {lasted_s:.0f} s: the first one {doing}"
        return self.find("warning", *figures, advice=advice, title=title)


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
        waits = [hang for hang in summary.hangs if hang.kind != "work"]
        if not waits:
            return None
        total_s = sum(hang.lasted_s or 0.0 for hang in waits)
        longest = max(waits, key=lambda hang: hang.lasted_s or 0.0)
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
        hang.lasted_s or 0.0
        for hang in summary.hangs
        if hang.kind != "work" and not (is_measured and hang.input_place is not None)
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


HALF = 0.5
SHORT_RUN_S, LONG_FIRST_STEP_S = 60.0, 30.0
ONCE: TimePart = "first_step"
ADVICE: dict[TimePart, tuple[str, ...]] = {
    "input": ("Prepare batches ahead: `ds.prefetch(tf.data.AUTOTUNE)` last",),
    "epoch_starts": (ONE_PIPELINE,),
    ONCE: (
        "It traces and compiles the model, once: over a longer run it matters less",
        "Where it takes minutes: a smaller graph, without unrolled loops",
    ),
    "tracing_again": ("Create the step function once and reuse it",),
    "validation": ("`fit(validation_freq=...)`, validation_steps, or a larger batch there",),
    "callbacks": ("In your own callbacks, do work every hundredth batch, not in each",),
    "other": ("Use longer epochs: Keras then does its work at an epoch's end less often",),
    "unknown": ("`keras_gpukit.Profiler(log_dir, at_steps=(100,))` shows what the steps do",),
}
TIME_DISTRIBUTED = "TimeDistributed"
"""Key, in `Environment.settings`, of the copies that Keras makes of layers over a static axis."""
UNROLLED = "unroll"
"""Key of the copies of its cell that a recurrent layer with `unroll=True` makes."""
MANY_COPIES = 50
"""Fewest copies that are named. Our choice: 240 copies of small layers tripled a first step."""
UNROLLS = (
    "If {name} loops in Python, over time steps or layers, each pass becomes part of the graph: a "
    "recurrent layer, or `tf.while_loop`, is traced once"
)
LEAST_TRACED_S, MUCH = 5.0, 1 / 3
"""Least time to trace one function of the script, in seconds and as a share of the first step, for
which it is named. Our choice: healthy models of Keras layers took 1 to 3 s to trace in all."""
NOT_UNROLLED = "Leave out `unroll=True`: a loop then runs the cell, which is traced once"
BY_XLA = (*ADVICE[ONCE][:1], TRIAL, CACHE)


class MostlyNotCompute(TimeRule):
    """Compute took less than half of the run, and no other rule explains the largest other part."""

    code = "low-compute-share"
    title = "Most of the time did not go to compute"
    time_of = Share("{value} of the time goes to {of}")
    compute = Share("Computing takes {value}")

    def yields_to(self, other: Rule, finding: Finding) -> bool:
        """Whether a rule explains the part, or, if that is a small first step, any other one.

        Next to a long first step that took most of the run, lasting causes matter less.
        """
        is_small = finding.severity == "info" or finding.evidence[0].value <= 100 * HALF
        if finding.about == ONCE and is_small:
            return any(code.startswith(self.code) for code in other.supersedes)
        return super().yields_to(other, finding)

    def judge_parts(self, summary: RunSummary, parts: TimeBreakdown) -> Outcome:
        if (parts.compute_s or 0.0) >= HALF * parts.wall_s:
            return None
        others = {part: part_s or 0.0 for part, part_s in parts.parts.items() if part != "compute"}
        if parts.compute_s is not None:  # else all of the unknown time may be compute
            others["unknown"] = parts.unknown_s
        name, spent_s = max(others.items(), key=lambda part: part[1])
        if parts.compute_s is None and spent_s <= HALF * parts.wall_s:
            return self.abstain("it is unknown how long steps computed")
        is_first = name == ONCE
        settings = summary.environment.settings if is_first else {}
        copies = settings.get(UNROLLED) or settings.get(TIME_DISTRIBUTED)
        traced = _traced(summary, spent_s) if is_first and not copies else None
        is_short = parts.wall_s < SHORT_RUN_S and spent_s < LONG_FIRST_STEP_S
        short = is_first and is_short and not (copies or traced)
        severity: Severity = "info" if short else "warning"
        figures = [self.time_of(spent_s / parts.wall_s, TIME_PARTS[name])]
        if parts.compute_s is not None:
            figures.append(self.compute(parts.compute_s / parts.wall_s))
        advice = BY_XLA if is_first and summary.environment.jit_compile else ADVICE[name]
        title = f"{self.title}: the largest part is {TIME_PARTS[name]}"
        took = f"{seconds(spent_s)} of {seconds(parts.wall_s)} s"
        if short:
            title = f"The run was short: its first step took {took}"
        if traced is not None:
            function, place, traced_s = traced
            part = f"{seconds(traced_s)} s of it to trace {function} ({place})"
            title = f"The first step took {took}, {part}"
            advice = (UNROLLS.format(name=function), *advice[:1])
        if copies:
            title = f"{copies}: the first step, which traces them, took {took}"
            advice = (BY_CLASS[TIME_DISTRIBUTED].format(name=TIME_DISTRIBUTED),)
            if UNROLLED in settings:
                advice = (NOT_UNROLLED,)
        basis = f"time of {TIME_PARTS[name]}"
        saving = of_run(summary, 0.0, spent_s, basis=basis, upper_bound=True)
        return self.find(
            severity,
            *figures,
            advice=advice,
            saving=None if short else saving,
            title=title,
            about=name,
        )


def _traced(summary: RunSummary, first_step_s: float) -> tuple[str, str, float] | None:
    """Returns the script's function that takes long to trace, its place, and the seconds.

    In graph mode, lines of the script within steps run only while these are traced. Tracing the
    gradients of what they did comes on top.
    """
    if summary.stacks is None or summary.environment.run_eagerly:
        return None
    spent_s: Counter[tuple[str, str]] = Counter()
    for line in summary.stacks.of("step"):
        spent_s[line.entry, line.entry_place] += line.seconds  # type: ignore[assignment]
    if not spent_s:
        return None
    (entry, place), longest_s = spent_s.most_common(1)[0]
    if longest_s < max(LEAST_TRACED_S, MUCH * first_step_s):
        return None
    return entry, place, longest_s
