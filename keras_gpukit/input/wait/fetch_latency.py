"""Measures the input wait of a pipeline without a model, from the time that its fetches take."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from keras_gpukit.input.wait.meters import Stretch, WaitReading
from keras_gpukit.records.steps import Confidence


class FetchLatencyMeter:
    """Reads the total latency of fetches that tf.data adds up.

    Args:
        total_s: Function that returns the time of all fetches so far, in seconds.
        overlaps: Whether fetching may overlap compute, as with several steps in one call. The wait
            is then an upper bound.
    """

    mechanism = "fetch latency"
    reads_early = True

    def __init__(self, total_s: Callable[[], float], *, overlaps: bool) -> None:
        self.confidence: Confidence = "upper bound" if overlaps else "exact"
        self._total_s = total_s
        self._before_s: float = self.take()
        self._until_s = 0.0

    def waited_s(self) -> float:
        """Returns the time of all fetches so far, in seconds."""
        return self._total_s()

    def take(self) -> float:
        """Returns the time of all fetches so far, in seconds."""
        return self._total_s()

    def start(self, taken: float, first: Stretch) -> None:
        """Starts a stretch."""
        self._before_s = taken
        self._until_s = first.next_exit_s

    def read(self, taken: Sequence[float], stretch: Stretch) -> WaitReading:
        """Returns the wait of a stretch, and starts the next one."""
        # Fetch times are known between the ends of two calls, not between two entries.
        fetching_s, since_s = self._fetching_s(taken[-1]), self._until_s
        self._until_s = stretch.next_exit_s
        share = min(fetching_s / max(self._until_s - since_s, 1e-9), 1.0)
        return WaitReading(share * stretch.duration_s)

    def _fetching_s(self, total_s: float) -> float:
        """Returns the seconds of the fetches since the previous reading."""
        before_s, self._before_s = self._before_s, total_s
        return total_s - before_s
