"""Rebuilds a summary from a run's lines, for a run that has not written one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from keras_gpukit.records.environment import Environment
from keras_gpukit.records.epoch_memory import EpochMemory
from keras_gpukit.records.hang import Hang
from keras_gpukit.records.host_buffers import HostBuffers
from keras_gpukit.records.learning import Learning
from keras_gpukit.records.machine import (
    DeviceMemory,
    GPUUtilization,
    HostSample,
    HostUtilization,
    MemoryRecord,
    UtilizationRecord,
)
from keras_gpukit.records.memory import OutOfMemory
from keras_gpukit.records.placement import PlacementRecord
from keras_gpukit.records.report import Band, RunReport, TimeSeries
from keras_gpukit.records.run import RunSummary
from keras_gpukit.records.steps import InputRecord, Phase, Progress, ThroughputRecord
from keras_gpukit.rules import judge
from keras_gpukit.saved_runs.partial_series import partial_series


def partial_summary(
    run: RunReport,
    *,
    environment: Environment | None,
    operations: PlacementRecord | None,
    allocators: tuple[DeviceMemory, ...],
    epochs: tuple[EpochMemory, ...] = (),
    memory_by_cause: MemoryRecord | None = None,
    input_so_far: InputRecord | None,
    out_of_memory: OutOfMemory | None = None,
    learning: Learning | None = None,
    host_buffers: HostBuffers | None = None,
    host_at_end: HostSample | None = None,
    killed_in: Progress | None = None,
    first_step_s: float | None = None,
    hangs: tuple[Hang, ...] | None = None,
) -> RunSummary:
    """Summarizes a run from its lines, and judges it.

    Args:
        run: The run as read from its lines, without a summary.
        environment: Recorded environment; None if it was not recorded.
        operations: Recorded placement of operations; None if it was not recorded.
        allocators: Latest reading of each device's allocator.
        epochs: Memory in use after epochs.
        memory_by_cause: Memory that the model holds and the prediction for steps; None if not
            recorded yet.
        input_so_far: Latest record of the input: its stages and the parts of its time; None if not
            recorded.
        out_of_memory: Why memory ran out; None if it did not.
        learning: Latest record of the losses and weights; None without.
        host_buffers: Latest record of the contents of caches and shuffle buffers; None without.
        host_at_end: Last reading of the host, for a run whose process ended without a summary.
        killed_in: Latest progress of a run whose process was killed; None otherwise.
        first_step_s: Seconds that the first step has taken, if it has not ended; None otherwise.
        hangs: Last recorded hang; None without one.
    """
    phase, steps = run.phase, run.steps
    wall_s = None if run.began_s is None else (run.ended_s or 0.0) - run.began_s
    # A run may have ended before its first window of steps, or be in its first step for long.
    others = (out_of_memory, host_at_end, killed_in, first_step_s)
    watched = any(each is not None for each in (*others, phase and steps))
    known = environment or Environment({})
    summary = RunSummary(
        environment=known,
        throughput=_throughput(phase, steps, wall_s) if phase and steps else None,
        input=_input(phase, steps, input_so_far, known) if phase and steps else None,
        memory=replace(memory_by_cause or MemoryRecord(), devices=allocators, epochs=epochs)
        if allocators or epochs or memory_by_cause
        else None,
        operations=operations,
        utilization=_utilization(run.host, run.gpus) if run.host or run.gpus else None,
        series=partial_series(run),
        out_of_memory=out_of_memory,
        learning=learning,
        host_buffers=host_buffers,
        host_at_end=host_at_end,
        killed_in=killed_in,
        first_step_s=first_step_s,
        hangs=hangs,
    )
    # Without the environment, rules would take the machine for one without GPUs.
    return replace(summary, verdict=judge(summary)) if watched and environment else summary


def _throughput(phase: Phase, steps: TimeSeries, wall_s: float | None) -> ThroughputRecord:
    times = steps.figures["step_time_s"]
    measured = round(sum(times.weight))
    return ThroughputRecord(
        phase=phase,
        steps=measured,
        measured_steps=measured,
        step_time_s=times.overall,
        examples_per_s=steps.figures["examples_per_s"].overall,
        wall_s=wall_s,
    )


def _input(
    phase: Phase, steps: TimeSeries, so_far: InputRecord | None, environment: Environment
) -> InputRecord:
    """Returns the latest input record, updated with the figures of all step windows so far."""
    waits = steps.figures["wait_s"]
    if so_far is None:
        # With several steps per execution, the wait may include what hides behind compute.
        hides = (environment.steps_per_execution or 1) > 1
        so_far = InputRecord(phase, confidence="upper bound" if hides else None)
    return replace(
        so_far,
        measured_steps=round(sum(waits.weight)),
        wait_s=waits.overall,
        stall_fraction=steps.figures["stall_fraction"].overall,
        buffered_batches=steps.figures["buffered_batches"].overall,
        unknown_because=(
            None if any(waits.weight) else so_far.unknown_because or "it was not measured"
        ),
    )


def _utilization(host: TimeSeries | None, gpus: Mapping[str, TimeSeries]) -> UtilizationRecord:
    return UtilizationRecord(
        samples=host.readings if host else 0,
        interval_s=1.0,
        gpus=tuple(_gpu(int(index), series.figures) for index, series in gpus.items()),
        host=_host(host.figures) if host else None,
    )


def _host(figures: Mapping[str, Band]) -> HostUtilization:
    return HostUtilization(
        cpu_percent=figures["cpu_percent"].overall,
        process_cpu_percent=figures["process_cpu_percent"].overall,
        memory_max_bytes=_count(figures["memory_bytes"].highest),
        memory_total_bytes=_count(figures["memory_total_bytes"].highest),
        disk_read_bytes_per_s=figures["disk_read_bytes_per_s"].overall,
    )


def _gpu(index: int, figures: Mapping[str, Band]) -> GPUUtilization:
    return GPUUtilization(
        index=index,
        utilization_percent=figures["utilization_percent"].overall,
        memory_used_max_bytes=_count(figures["memory_used_bytes"].highest),
        memory_total_bytes=_count(figures["memory_total_bytes"].highest),
        power_watts=figures["power_watts"].overall,
        temperature_max_celsius=figures["temperature_celsius"].highest,
        sm_clock_mhz=figures["sm_clock_mhz"].overall,
        throttled_fraction=figures["throttled"].overall,
    )


def _count(value: float | None) -> int | None:
    return None if value is None else int(value)
