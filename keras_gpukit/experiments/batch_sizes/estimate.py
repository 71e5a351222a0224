"""Where the largest batch size is expected, by prediction and by what trials took."""

from __future__ import annotations

from itertools import pairwise

from keras_gpukit.experiments.batch_sizes.trainer import Survey

FILLED = 0.92
"""Share of a device's memory that is in use in the largest steps that fit: the rest is divided into
pieces that are too small, or goes to steps in another order. Where the search goes on depends on
it, and not where it ends."""
Point = tuple[int, int]


class Estimate:
    """A curve of peaks: the predicted one, scaled by what the last trial took.

    Where nothing could be predicted in full, a line through the last two trials.

    Args:
        survey: Limit and predictions.
    """

    def __init__(self, survey: Survey) -> None:
        self._limit_bytes = survey.limit_bytes
        self._predicted = survey.predicted
        self._measured: list[Point] = []

    def note(self, batch_size: int, peak_bytes: int | None) -> None:
        """Takes in what a batch size took, if that is known."""
        if peak_bytes is not None:
            self._measured.append((batch_size, peak_bytes))

    def largest(self, filled: float = FILLED) -> int | None:
        """Returns the batch size that is expected to fill the device; None where that is unknown.

        Args:
            filled: To which share.
        """
        if self._limit_bytes is None:
            return None
        return self.filling(int(filled * self._limit_bytes))

    def filling(self, allowed_bytes: int) -> int | None:
        """Returns the batch size whose peak is expected to be a number of bytes.

        Args:
            allowed_bytes: How many.
        """
        found = _where(self._points(), allowed_bytes)
        return None if found is None else max(1, int(found))

    def examples_bytes(self, count: float, batch_size: int) -> int:
        """Returns what some of a batch's examples take; 0 where that is unknown.

        Args:
            count: How many, or a fraction of one.
            batch_size: Of the batch.
        """
        measured = sorted(self._measured)
        # Of two batch sizes near each other, chance decides which takes more.
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
    """The two neighbours between which a value is, or the outermost next to it."""
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
