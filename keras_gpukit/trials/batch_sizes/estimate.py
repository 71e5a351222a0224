"""Estimates the largest batch size from the memory prediction and from measured peaks."""

from __future__ import annotations

from itertools import pairwise

from keras_gpukit.trials.batch_sizes.trainer import Survey

FILLED = 0.92
"""Share of a device's memory in use during the largest steps that fit. The rest is divided into
pieces that are too small, or is needed if operations run in another order. This share affects which
size the search tries next, but not where it ends."""
Point = tuple[int, int]


class Estimate:
    """Estimates the peak memory as a function of the batch size.

    The estimate is the predicted curve, scaled to the peak of the last trial. Without a complete
    prediction, it is a line through the last two trials.

    Args:
        survey: Memory limit and predicted peaks.
    """

    def __init__(self, survey: Survey) -> None:
        self._limit_bytes = survey.limit_bytes
        self._predicted = survey.predicted
        self._measured: list[Point] = []

    def note(self, batch_size: int, peak_bytes: int | None) -> None:
        """Records the measured peak of a batch size; ignores None."""
        if peak_bytes is not None:
            self._measured.append((batch_size, peak_bytes))

    def largest(self, filled: float = FILLED) -> int | None:
        """Returns the batch size that is expected to fill the device; None if unknown.

        Args:
            filled: Share of the device's memory that the peak may take.
        """
        if self._limit_bytes is None:
            return None
        return self.filling(int(filled * self._limit_bytes))

    def filling(self, allowed_bytes: int) -> int | None:
        """Returns the batch size that is expected to have a given peak; None if unknown.

        Args:
            allowed_bytes: Peak memory in bytes.
        """
        found = _where(self._points(), allowed_bytes)
        return None if found is None else max(1, int(found))

    def examples_bytes(self, count: float, batch_size: int) -> int:
        """Returns the bytes that additional examples in a batch take; 0 if unknown.

        Args:
            count: Number of examples, which may be a fraction.
            batch_size: Examples per batch. The memory of an example is the slope of the curve here.
        """
        measured = sorted(self._measured)
        # Use points far apart: for similar batch sizes, chance decides which has the higher peak.
        points = self._points() if self._predicted else [*measured[:1], *measured[-1:]]
        if len(points) < 2:
            return 0
        (left, low), (right, high) = _segment(points, batch_size, 0)
        return 0 if left == right else max(int(count * (high - low) / (right - left)), 0)

    def _points(self) -> list[Point]:
        points = list(self._predicted)
        if points and self._measured:
            size, peak = self._measured[-1]
            scale = peak / _at(points, size)
            points = [(each, round(scale * its_peak)) for each, its_peak in points]
        elif not points:
            points = self._measured[-2:]
        return points


def _segment(points: list[Point], at: int, axis: int) -> tuple[Point, Point]:
    """Returns the two neighbours around a value, or the nearest two if it is out of range.

    Args:
        points: Batch sizes with their peaks, at least two.
        at: The value.
        axis: 0 if the value is a batch size, 1 if it is a peak.
    """
    pairs = list(pairwise(points))
    return next((pair for pair in pairs if at <= pair[1][axis]), pairs[-1])


def _at(points: list[Point], size: int) -> float:
    (left, low), (right, high) = _segment(points, size, 0)
    return low + (high - low) * (size - left) / (right - left)


def _where(points: list[Point], peak: int) -> float | None:
    if len(points) < 2:
        return None
    (left, low), (right, high) = _segment(points, peak, 1)
    if high <= low or left == right:
        return None
    return left + (right - left) * (peak - low) / (high - low)
