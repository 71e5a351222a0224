"""Estimates the largest batch size from the memory prediction and from measured peaks."""

from __future__ import annotations

import numpy as np

from keras_gpukit.trials.batch_sizes.trainer import Survey

FILLED = 0.92
"""Share of a device's memory in use during the largest steps that fit. The rest is divided into
pieces that are too small, or is needed if operations run in another order. This share affects which
size the search tries next, but not where it ends."""
FAR = 2.0**30
"""Batch size up to which a curve continues in a straight line."""


class Estimate:
    """Estimates the peak memory as a function of the batch size.

    The estimate is the predicted curve, scaled to the peak of the last trial. Without a complete
    prediction, it is a line through the smallest and the largest trial.
    """

    def __init__(self, survey: Survey) -> None:
        self._limit_bytes = survey.limit_bytes
        self._predicted = survey.predicted
        self._measured: list[tuple[int, int]] = []

    def note(self, batch_size: int, peak_bytes: int | None) -> None:
        """Records the measured peak of a batch size; ignores None."""
        if peak_bytes is not None:
            self._measured.append((batch_size, peak_bytes))

    def largest(self, filled: float = FILLED) -> int | None:
        """Returns the batch size whose peak is expected to fill a share of the device's memory."""
        return None if self._limit_bytes is None else self.filling(int(filled * self._limit_bytes))

    def filling(self, allowed_bytes: int) -> int | None:
        """Returns the batch size that is expected to have a given peak; None if unknown."""
        curve = self._curve()
        if curve is None or (np.diff(curve[1]) <= 0).any():
            return None
        return max(1, int(np.interp(allowed_bytes, curve[1], curve[0])))

    def examples_bytes(self, count: float, batch_size: int) -> int:
        """Returns the bytes that the last `count` examples of a batch take; 0 if unknown."""
        curve = self._curve()
        if curve is None:
            return 0
        less, whole = np.interp([batch_size - count, batch_size], *curve)
        return max(int(whole - less), 0)

    def _curve(self) -> tuple[np.ndarray, np.ndarray] | None:
        """Returns batch sizes in ascending order and their peaks; None if fewer than two."""
        by_size = sorted(self._measured)
        points = self._predicted or (*by_size[:1], *by_size[-1:])
        if len(points) < 2 or points[0][0] == points[-1][0]:
            return None
        sizes, peaks = np.array(points, float).T
        slopes = np.diff(peaks) / np.diff(sizes)
        ends = [peaks[0] - slopes[0] * sizes[0], peaks[-1] + slopes[-1] * (FAR - sizes[-1])]
        sizes = np.array([0, *sizes, FAR])
        peaks = np.array([ends[0], *peaks, ends[1]])
        if self._predicted and self._measured:
            size, peak = self._measured[-1]
            peaks *= peak / np.interp(size, sizes, peaks)
        return sizes, peaks
