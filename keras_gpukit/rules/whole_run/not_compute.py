"""Whether most of a run's time went to something other than compute, whatever that is."""

from __future__ import annotations

from keras_gpukit.records.finding import Finding, Severity
from keras_gpukit.records.run import RunSummary
from keras_gpukit.records.steps import TimeBreakdown
from keras_gpukit.rules.compute.dominant_layer import BY_CLASS
from keras_gpukit.rules.rule import Outcome, Rule, Share, seconds
from keras_gpukit.rules.savings import of_run
from keras_gpukit.rules.whole_run.hangs import CACHE, TRIAL
from keras_gpukit.rules.whole_run.time_parts import TimeRule

HALF = 0.5
SHORT_RUN_S, LONG_FIRST_STEP_S = 60.0, 30.0
ONCE = "the first step"
ADVICE: dict[str, tuple[str, ...]] = {
    "input": ("Prepare batches ahead: `ds.prefetch(tf.data.AUTOTUNE)` last",),
    "epoch starts": ("`ds.repeat()` and `fit(steps_per_epoch=...)`: one pipeline for all epochs",),
    ONCE: (
        "It traces and compiles the model, once: over a longer run it matters less",
        "Where it takes minutes: a smaller graph, without unrolled loops",
    ),
    "tracing again": ("Create the step function once and reuse it",),
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
NOT_UNROLLED = "Leave out `unroll=True`: a loop then runs the cell, which is traced once"
BY_XLA = (*ADVICE[ONCE][:1], TRIAL, CACHE)


class MostlyNotCompute(TimeRule):
    """Compute took less than half of the run, and no other rule explains the largest other part."""

    code = "low-compute-share"
    subject = "share of compute"
    title = "Most of the time did not go to compute"
    time_of = Share("{of}: {value} of the time")
    compute = Share("Computing takes {value}")

    def yields_to(self, other: Rule, finding: Finding) -> bool:
        """Whether a rule explains the part, or, if that is a small first step, any other one.

        Next to a long first step that took most of the run, lasting causes matter less.
        """
        is_small = finding.severity == "info" or finding.evidence[0].value <= 100 * HALF
        if finding.about == ONCE and is_small:
            return any(each.startswith(self.code) for each in other.supersedes)
        return super().yields_to(other, finding)

    def judge_parts(self, summary: RunSummary, parts: TimeBreakdown) -> Outcome:
        if (parts.compute_s or 0.0) >= HALF * parts.wall_s:
            return None
        others = {**parts.parts, "unknown": parts.unknown_s}
        others.pop("compute")
        if parts.compute_s is None:
            others.pop("unknown")  # all of it may be compute
        name, spent_s = max(
            ((part, spent_s or 0.0) for part, spent_s in others.items()), key=lambda part: part[1]
        )
        if parts.compute_s is None and spent_s <= HALF * parts.wall_s:
            return self.abstain("it is unknown how long steps computed")
        is_first = name == ONCE
        settings = summary.environment.settings if is_first else {}
        copies = settings.get(UNROLLED) or settings.get(TIME_DISTRIBUTED)
        short = (
            is_first and not copies and parts.wall_s < SHORT_RUN_S and spent_s < LONG_FIRST_STEP_S
        )
        severity: Severity = "info" if short else "warning"
        figures = [self.time_of(spent_s / parts.wall_s, name)]
        if parts.compute_s is not None:
            figures.append(self.compute(parts.compute_s / parts.wall_s))
        advice = BY_XLA if is_first and summary.environment.jit_compile else ADVICE[name]
        title = f"{self.title}: the largest part is {name}"
        if copies:
            took = f"{seconds(spent_s)} of {seconds(parts.wall_s)} s"
            title = f"{copies}: the first step, which traces them, took {took}"
            advice = (BY_CLASS[TIME_DISTRIBUTED].format(name=TIME_DISTRIBUTED),)
            if UNROLLED in settings:
                advice = (NOT_UNROLLED,)
        return self.find(
            severity,
            *figures,
            advice=advice,
            saving=of_run(summary, 0.0, spent_s, basis=f"time of {name}", upper_bound=True),
            title=title,
            about=name,
        )
