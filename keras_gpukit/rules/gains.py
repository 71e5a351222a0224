"""Whether a measured gain counts: outside the noise, and large enough to matter."""

from __future__ import annotations

from keras_gpukit.records.tuning import Rate

SMALLEST = 1.05
"""Smallest gain that makes a change worth its line of code; our choice."""
INPUT_MARGIN = 1.1
"""Input alone has all cores; alongside a training step it is slower than measured. Our choice."""


def counts(gain: float, low: float) -> bool:
    """Whether a gain is real and large enough."""
    return low > 1 and gain >= SMALLEST


def ceiling_gain(ratio: Rate) -> float | None:
    """Returns the speed-up that a model would have if its input were free; None if none counts."""
    return ratio.median if counts(ratio.median, ratio.low) else None


def rejected_because(gain: float, low: float, high: float) -> str:
    """Returns why a gain does not count; "" if it does."""
    if counts(gain, low):
        return ""
    if low > 1:
        return "less than 5 % faster"
    return "no faster" if high < SMALLEST else "no gain outside the noise"


def training_gain(before: Rate, tuned: Rate, compute: Rate, *, overlap_is_new: bool) -> float:
    """Estimates how much faster steps get with a tuned input.

    If batches are made while the model trains, the slower of the two sets the pace. It is no bound:
    the start of each epoch, such as filling a shuffle buffer, and cores that input and model share
    are not in these rates.

    Args:
        before: Rate of the original input alone.
        tuned: Rate of the tuned input alone.
        compute: Rate of the model alone.
        overlap_is_new: Whether only the tuned input makes batches while the model trains.
    """
    slower = min(before.median, compute.median)
    if overlap_is_new:
        slower = 1 / (1 / before.median + 1 / compute.median)
    return max(min(tuned.median, compute.median) / slower, 1.0)


def input_suffices(input_rate: Rate, compute_rate: Rate | None) -> bool:
    """Whether the input delivers batches faster than the model trains; False without a model."""
    return compute_rate is not None and input_rate.median >= INPUT_MARGIN * compute_rate.median
