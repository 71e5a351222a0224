"""What the steps of a phase come to: its records, from its clock and its totals."""

from __future__ import annotations

from dataclasses import replace

from keras_gpukit.errors import give_up
from keras_gpukit.input_wait.clock import StepClock
from keras_gpukit.input_wait.stages.watch import PipelineWatch
from keras_gpukit.input_wait.totals import StepTotals
from keras_gpukit.input_wait.wall_time import WallTime
from keras_gpukit.records.pipeline import PipelineRecord
from keras_gpukit.records.steps import InputRecord, TimeBreakdown
from keras_gpukit.rules.bottleneck import name_bottleneck


def input_record(
    totals: StepTotals, clock: StepClock | None, pipeline: PipelineWatch | None
) -> InputRecord:
    """Returns the input wait of a phase, without its time breakdown.

    Args:
        totals: The phase's windows, added up.
        clock: The clock around its step function; None where its steps never began.
        pipeline: What is known of its pipeline's stages.
    """
    meter = None if clock is None else clock.meter
    record = totals.input(
        meter.mechanism if meter else None,
        meter.confidence if meter else None,
        None if clock is None else clock.unknown_because,
    )
    return record if pipeline is None else replace(record, pipeline=_stages(pipeline, record))


def breakdown(
    wall: WallTime, clock: StepClock | None, steps: int, wait_s: float | None
) -> TimeBreakdown | None:
    """Returns where the call's wall time went, or None unless every step was timed.

    Args:
        wall: The call's wall time.
        clock: The clock around the call's step function.
        steps: Steps that ran.
        wait_s: Mean wait of a step.
    """
    if clock is None or not clock.saw_every_step:
        return None
    # The first step of the run, and those whose wait is known to be their epoch's start.
    executions_apart = 1 + clock.totals.starts.epochs
    waiting_steps = max(steps - executions_apart * clock.steps_per_execution, 0)
    return wall.breakdown(None if wait_s is None else wait_s * waiting_steps)


def _stages(pipeline: PipelineWatch, record: InputRecord) -> PipelineRecord:
    """The pipeline's stages; a failure to name them must not lose the wait."""
    try:
        stages = pipeline.record(record.wait_s)
        return name_bottleneck(stages, record.stall_fraction, record.wait_s)
    except Exception as error:
        give_up("Naming the stages of the pipeline", error, "They are unknown.")
        return PipelineRecord(unknown_because=f"{type(error).__name__}: {error}")
