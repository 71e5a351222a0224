"""The input wait of a pipeline without a model, from how long its fetches take."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from keras_gpukit.input_wait.meters import Stretch, WaitReading
from keras_gpukit.records.steps import Confidence


class FetchLatencyMeter:
    """Reads what tf.data added up of its fetches' latencies.

    Args:
        total_s: Returns the time of all fetches so far, in seconds.
        overlaps: Whether fetching may overlap compute, as with several steps in one call.
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
        """Begins a stretch."""
        self._before_s = taken
        self._until_s = first.next_exit_s

    def read(self, taken: Sequence[float], stretch: Stretch) -> WaitReading:
        """Says how long a stretch waited."""
        # What was fetched belongs to the time between two calls' ends, not between two entries.
        fetching_s, since_s = self._fetching_s(taken[-1]), self._until_s
        self._until_s = stretch.next_exit_s
        share = min(fetching_s / max(self._until_s - since_s, 1e-9), 1.0)
        return WaitReading(share * stretch.duration_s)

    def _fetching_s(self, total_s: float) -> float:
        """Time of the fetches since the last time this was asked."""
        before_s, self._before_s = self._before_s, total_s
        return total_s - before_s
