"""The steps of a profile as they are compared with those of other workers."""

from __future__ import annotations

from keras_gpukit.records.profile import ProfileRecord
from keras_gpukit.records.worker_comparison import ComparedStep


def compared_steps(profile: ProfileRecord) -> tuple[ComparedStep, ...]:
    """Returns the steps that are numbered, so that others can have captured the same.

    Args:
        profile: What was read of it.
    """
    return tuple(
        ComparedStep(
            step=step.number,
            duration_s=step.duration_s,
            input_s=step.parts_s.get("input wait", 0.0),
            collective_s=step.parts_s.get("collectives", 0.0),
        )
        for step in profile.each_step
        if step.number is not None
    )
