"""Which stage of a pipeline is the bottleneck, and waits that a profile of the steps corrects."""

from __future__ import annotations

from dataclasses import replace

from keras_gpukit.records.pipeline import PipelineRecord
from keras_gpukit.records.profile import CaptureRecord
from keras_gpukit.records.run import RunSummary
from keras_gpukit.records.steps import InputRecord, TimeBreakdown
from keras_gpukit.rules.input.input_bound import SHORTEST_WAIT_S
from keras_gpukit.rules.savings import WARNING_FRACTION

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
    for each in reversed(summary.captures.captures if summary.captures else ()):
        if each.stall_fraction is not None and each.live_stall_fraction is not None:
            return each
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
            pipeline=record.pipeline and _renamed(record.pipeline, stall, wait_s),
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


def _renamed(pipeline: PipelineRecord, stall: float, wait_s: float) -> PipelineRecord:
    """Names the pipeline's bottleneck again."""
    if pipeline.slowest_s is None:
        return pipeline
    unnamed = replace(pipeline, bottleneck=None, balanced_because=None, unknown_because=None)
    return name_bottleneck(unnamed, stall, wait_s)
