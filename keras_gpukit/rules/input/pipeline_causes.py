"""Which stage of a pipeline is the bottleneck, and causes of a wait that stages show."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from keras_gpukit.records.finding import Advice, Figure
from keras_gpukit.records.pipeline import PipelineRecord, StageRecord
from keras_gpukit.records.profile import CaptureRecord
from keras_gpukit.records.run import RunSummary
from keras_gpukit.records.script import seconds_at_places
from keras_gpukit.records.steps import InputRecord, TimeBreakdown
from keras_gpukit.rules.rule import Measure, Share, advise
from keras_gpukit.rules.savings import WARNING_FRACTION

SHORTEST_WAIT_S = 0.25e-3
LEAST_SHARE = 0.3
"""Smallest share of the slowest segment's time that counts if it goes to what is dropped, or to a
cache that is filled again; our choice. With less, another cause comes first."""
LEAST_USED = 0.01
"""Smallest share of used elements that is given as a ratio; our choice."""
LEAST_DROPPED = 0.1
"""Smallest share that a stage drops of what it is given, to be named; our choice."""

Stages = tuple[StageRecord, ...]
"""Stages of a pipeline from the one nearest to training back to the sources; () if unknown."""


class PipelineMeasures:
    """Evidence of the causes, for the rules that name them."""

    filling_the_cache = Share("Filling the cache takes {value} of the stages' time")
    elements_made_by = Measure("{of} makes {value} elements")
    of_them_used = Measure(", {value} of them are used")
    joined_by_concatenate = Measure("The pipeline joins {value} datasets")


class PipelineCause(NamedTuple):
    """A cause of a wait.

    Attributes:
        text: The cause as the second half of a title; "" if the advice alone says it.
        share: Share of the wait, or of the slowest segment's time, that is saved without it.
    """

    text: str
    advice: tuple[str | Advice, ...]
    evidence: tuple[Figure, ...] = ()
    share: float = 1.0

    @property
    def ending(self) -> str:
        """End of a title."""
        return f": {self.text}" if self.text else ""


def cause_of(pipeline: PipelineRecord | None, *, at_start: bool) -> PipelineCause | None:
    """Returns the cause of the wait for the first batches, or for later ones; None without one."""
    if pipeline is None:
        return None
    stages = pipeline.starts if at_start else stages_while_training(pipeline)
    return _refilled(pipeline.starts) or _dropped(stages) or _chained(stages)


def stages_while_training(pipeline: PipelineRecord | None) -> Stages:
    """Returns the stages as steps ran; of epochs that are too short for that, as they started."""
    return (pipeline.stages or pipeline.starts) if pipeline else ()


def slowest_at_start(pipeline: PipelineRecord | None, wait_s: float) -> StageRecord | None:
    """Returns the stage that takes longest until an epoch's first batches; None if unknown.

    It is unknown if the stages account for less than a quarter of the wait: readings come at any
    moment of it, on average in the middle, and half of the wait must be accounted for (our choice).
    """
    starts = pipeline.starts if pipeline else ()
    stage = max(starts, key=lambda start: start.share, default=None)
    if stage is None or not stage.share or not stage.cost_per_batch_s:
        return None
    segment_s = stage.cost_per_batch_s / stage.parallelism / stage.share
    return stage if segment_s >= wait_s / 4 else None


def _refilled(starts: Stages) -> PipelineCause | None:
    at = next((n for n, stage in enumerate(starts) if stage.refill_share is not None), None)
    if at is None or (starts[at].refill_share or 0.0) < LEAST_SHARE:
        return None
    share = starts[at].refill_share or 0.0
    slowest = max(starts[at:], key=lambda stage: stage.share)
    take = next((stage for stage in starts[:at] if stage.kind == "take"), None)
    then = "then read to its end, filled in the first epoch, and read in later ones"
    ends = "steps_per_epoch or validation_steps ends"
    advice = f"`ds.take(n).cache()` with the elements that an epoch uses: the cache is {then}"
    if take:
        ends = f"{take.name} ends"
        advice = f"put `take` before the cache: `ds.take(n).cache()`. It is {then}"
    return PipelineCause(
        f"{slowest.name}{slowest.where} fills cache() again in each epoch, since {ends} the epoch "
        "before the data do",
        (advise(advice, "cache"),),
        (PipelineMeasures.filling_the_cache(share),),
        share,
    )


def _dropped(stages: Stages) -> PipelineCause | None:
    def wasted(stage: StageRecord) -> float:
        return stage.share * (1 - (1.0 if stage.used is None else stage.used))

    stage = max(stages, key=wasted, default=None)
    if stage is None or wasted(stage) < LEAST_SHARE or not stage.elements:
        return None
    used = stage.used or 0.0
    nearer = stages[: stages.index(stage)][::-1]
    passed = [record.used if record.used is not None else 1.0 for record in (stage, *nearer)]
    # A stage drops what later stages pass on of its own elements, but not of what it is given.
    dropper = next(
        (
            candidate
            for candidate, mine, given in zip(nearer, passed[1:], passed, strict=False)
            if given < (1 - LEAST_DROPPED) * mine
        ),
        None,
    )
    if dropper is None:
        return None
    name, by = f"{stage.name}{stage.where}", f"{dropper.name}{dropper.where}"
    if dropper.kind == "skip":
        dropped = stage.elements * (1 - used)
        text = f"each time, {name} makes {dropped:,.0f} elements that {by} drops"
    elif used < LEAST_USED:
        text = f"{name} makes elements of which {by} drops nearly all"
    else:
        times = f"{1 / used:.0f}" if used <= 0.1 else f"{1 / used:.2g}"
        text = f"{name} makes {times} elements for each one that is used, since {by} drops the rest"
    return PipelineCause(
        text,
        (_EARLIER.get(dropper.kind, _ELSE).format(name=stage.name, kind=dropper.kind),),
        (
            PipelineMeasures.elements_made_by(round(stage.elements), stage.name),
            PipelineMeasures.of_them_used(round(stage.elements * used)),
        ),
        wasted(stage),
    )


_EARLIER = {
    "filter": "filter before {name}, by what is known before it, such as file names or labels: "
    "`ds.filter(...).map({name})`",
    "skip": "split before {name}: `skip` and `take` on file names or indices, then `map({name})`",
    "shard": "`ds.shard(...)` before {name}",
}
_ELSE = "{kind} before {name}, so that it makes only what is used"


LONG_CHAIN = 16
"""Fewest datasets of a chain of `concatenate` that is named; our choice: fewer cost little."""


def _chained(stages: Stages) -> PipelineCause | None:
    chains = (stage for stage in stages if (stage.joined or 0) >= LONG_CHAIN)
    chain = max(chains, key=lambda stage: stage.share, default=None)
    if chain is None or chain.share < LEAST_SHARE:
        return None
    return PipelineCause(
        f"each element passes through up to {(chain.joined or 0) - 1:,} concatenate calls in a row",
        (
            "join the data once, not the datasets: `np.concatenate(parts)` and one "
            "`from_tensor_slices`, or `from_tensor_slices(files).flat_map(load)`",
        ),
        (PipelineMeasures.joined_by_concatenate(chain.joined or 0),),
        chain.share,
    )


LEAST_S = 1.0
"""Least time within the code, in seconds, for which a line is named: seven samples. Our choice."""
MOST_OF_IT = 0.5
"""Least share of the code's time that a line must take to be named; our choice."""


def slowest_line(summary: RunSummary, location: str | None) -> str:
    """Returns the end of a title, ", 80 % of it in a.py:24: Image.open(path)"; "" if unknown.

    The code is defined at the location, such as "train.py:20".
    """
    lines = summary.stacks.of("python", location) if summary.stacks and location else ()
    seconds = seconds_at_places(lines)
    total_s = sum(seconds.values())
    if location is None or total_s < LEAST_S:
        return ""
    place, longest_s = max(seconds.items(), key=lambda item: item[1])
    if longest_s < MOST_OF_IT * total_s:
        return ""
    source = next(line.source for line in lines if line.place == place)
    return f", {100 * longest_s / total_s:.0f} % of it in {place}: {source}".removesuffix(": ")


ACCOUNTED = 0.5
"""Share of the steps' wait that the slowest segment must explain for its stages to be named.

Our choice: with less, most of the wait has a cause that the stages do not show.
"""
LARGEST_DIFFERENCE = 0.03
"""Largest difference of the two stalls, as a share of the steps' time. On an H100 they were within
0.01 of each other with one step per execution; the line is our choice. A stall that is only known
as a range is refuted outside of it; its lower end is then corrected."""


def name_bottleneck(
    pipeline: PipelineRecord, stall_fraction: float | None, wait_s: float | None
) -> PipelineRecord:
    """Returns a pipeline with its bottleneck, or with the reason why it has none.

    If steps wait too little for `InputBound` to report it, the pipeline has no bottleneck either.
    """
    if pipeline.unknown_because is not None:
        return pipeline
    if stall_fraction is None or wait_s is None or pipeline.slowest_s is None:
        return replace(pipeline, unknown_because="how long steps wait for batches is unknown")
    if stall_fraction < WARNING_FRACTION:
        because = f"steps wait for batches only {100 * stall_fraction:.1f} % of their time"
        return replace(pipeline, balanced_because=because)
    if wait_s < SHORTEST_WAIT_S:
        because = f"steps wait for batches only {wait_s * 1e3:.2f} ms"
        return replace(pipeline, balanced_because=because)
    if pipeline.slowest_s < ACCOUNTED * wait_s:
        because = (
            f"a step waits {wait_s * 1e3:.1f} ms for its batch, and of that tf.data accounts "
            f"for {pipeline.slowest_s * 1e3:.1f} ms"
        )
        return replace(pipeline, unknown_because=because)
    return replace(pipeline, bottleneck=max(pipeline.stages, key=lambda stage: stage.share))


def compared_capture(summary: RunSummary) -> CaptureRecord | None:
    """Returns the run's last capture whose stall is known next to the live one."""
    for capture in reversed(summary.captures.captures if summary.captures else ()):
        if capture.stall_fraction is not None and capture.live_stall_fraction is not None:
            return capture
    return None


def corrected(summary: RunSummary) -> RunSummary:
    """Corrects the input wait of the whole run by a profile that refutes it.

    A few steps do not stand for the whole run, but the error does, since the same mechanism
    measured all steps. If it found too much wait, all waits are scaled down; if too little, the
    rest of the time is. The result is only about right, and its confidence "sampled".
    """
    capture, record = compared_capture(summary), summary.input
    if capture is None or record is None or record.stall_fraction is None or record.wait_s is None:
        return summary
    if record.live_stall_fraction is not None:
        return summary  # it is corrected already
    true, live = capture.stall_fraction or 0.0, capture.live_stall_fraction or 0.0
    most = capture.live_most_stall_fraction or live
    if live - LARGEST_DIFFERENCE <= true <= most + LARGEST_DIFFERENCE:
        return summary
    stall = _scaled(record.stall_fraction, true, live)
    later = record.later_stall_fraction
    step_time_s = summary.step_time_s or 0.0
    wait_s = record.wait_s * stall / record.stall_fraction if record.wait_s else stall * step_time_s
    pipeline = record.pipeline
    if pipeline is not None and pipeline.slowest_s is not None:
        unnamed = replace(pipeline, bottleneck=None, balanced_because=None, unknown_because=None)
        pipeline = name_bottleneck(unnamed, stall, wait_s)
    return replace(
        summary,
        input=replace(
            record,
            confidence="sampled",
            wait_s=wait_s,
            stall_fraction=stall,
            most_stall_fraction=None,
            later_stall_fraction=None if later is None else _scaled(later, true, live),
            live_stall_fraction=record.stall_fraction,
            distribution=None,  # of the refuted waits
            breakdown=record.breakdown and _moved(record.breakdown, record, wait_s),
            pipeline=pipeline,
        ),
    )


def _scaled(fraction: float, true: float, live: float) -> float:
    if true < live:
        return fraction * true / live
    return 1 - (1 - fraction) * (1 - true) / (1 - live)


def _moved(parts: TimeBreakdown, record: InputRecord, wait_s: float) -> TimeBreakdown:
    """Moves time between waiting and computing; their sum is known from the steps."""
    if parts.input_s is None or parts.compute_s is None:
        return parts
    steps = parts.input_s / record.wait_s if record.wait_s else record.measured_steps
    both_s = parts.input_s + parts.compute_s
    input_s = min(wait_s * steps, both_s)
    return replace(parts, input_s=input_s, compute_s=both_s - input_s)
