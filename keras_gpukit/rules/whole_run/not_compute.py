"""Whether most of a run's time went to something other than compute, whatever that is."""

from __future__ import annotations

from collections import Counter

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
        traced = _traced(summary, spent_s) if is_first and not copies else None
        is_told = bool(copies or traced)
        short = (
            is_first and not is_told and parts.wall_s < SHORT_RUN_S and spent_s < LONG_FIRST_STEP_S
        )
        severity: Severity = "info" if short else "warning"
        figures = [self.time_of(spent_s / parts.wall_s, name)]
        if parts.compute_s is not None:
            figures.append(self.compute(parts.compute_s / parts.wall_s))
        advice = BY_XLA if is_first and summary.environment.jit_compile else ADVICE[name]
        title = f"{self.title}: the largest part is {name}"
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
        saving = of_run(summary, 0.0, spent_s, basis=f"time of {name}", upper_bound=True)
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
