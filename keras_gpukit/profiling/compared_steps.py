"""Prepares a profile's steps for comparison with other workers, or between its own GPUs."""

from __future__ import annotations

from keras_gpukit.records.cluster import ComparedStep, WorkerComparison, WorkerFigures
from keras_gpukit.records.profile import ProfileRecord


def compared_steps(profile: ProfileRecord) -> tuple[ComparedStep, ...]:
    """Returns the numbered steps, which other workers may have captured too."""
    count = profile.steps_per_execution
    return tuple(
        ComparedStep(
            step=step.number,
            duration_s=step.duration_s / count,
            input_s=step.parts_s.get("input wait", 0.0) / count,
            collective_s=step.parts_s.get("collectives", 0.0) / count,
        )
        for step in profile.each_step
        if step.number is not None
    )


def compared_replicas(profile: ProfileRecord) -> WorkerComparison | None:
    """Compares the GPUs of one process; None unless there are several and all exchanged data."""
    devices = [each for each in profile.devices if any(each.collectives_s)]
    if len(devices) < 2 or len(devices) < len(profile.devices):
        return None
    count = profile.steps_per_execution
    members = tuple(
        WorkerFigures(
            index,
            steps=profile.steps,
            step_time_s=profile.step_time_s,
            gpu_percent=100 * device.busy_fraction,
            compared=tuple(
                ComparedStep(row, step.duration_s / count, None, collective_s / count)
                for row, (step, collective_s) in enumerate(
                    zip(profile.each_step, device.collectives_s, strict=True)
                )
            ),
        )
        for index, device in enumerate(devices)
    )
    return WorkerComparison(members, len(devices), "replica")
