"""Meters that add up how long fetches take: those of tf.data, and those of `predict`."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from keras_gpukit.input.wait.meters import Stretch, WaitReading
from keras_gpukit.records.steps import Confidence


class FetchLatencyMeter:
    """Reads the total latency of fetches that tf.data adds up, for pipelines without a model.

    Args:
        total_s: Function that returns the time of all fetches so far, in seconds.
        overlaps: Whether fetching may overlap compute, as with several steps in one call. The wait
            is then an upper bound.
    """

    mechanism = "fetch latency"
    reads_early = True

    def __init__(self, total_s: Callable[[], float], *, overlaps: bool) -> None:
        self.confidence: Confidence = "upper bound" if overlaps else "exact"
        self.waited_s = self.take = total_s
        self._before_s: float = total_s()
        self._until_s = 0.0

    def start(self, taken: float, first: Stretch) -> None:
        """Starts a stretch."""
        self._before_s = taken
        self._until_s = first.next_exit_s

    def read(self, taken: Sequence[float], stretch: Stretch) -> WaitReading:
        """Returns the wait of a stretch, and starts the next one."""
        # Fetch times are known between the ends of two calls, not between two entries.
        before_s, self._before_s = self._before_s, taken[-1]
        since_s, self._until_s = self._until_s, stretch.next_exit_s
        share = min((taken[-1] - before_s) / max(self._until_s - since_s, 1e-9), 1.0)
        return WaitReading(share * stretch.duration_s)


class RequestMeter:
    """Adds up the time from the request for batches to their arrival.

    `Model.predict` fetches batches outside its step function. Callbacks see the request, and the
    batches have arrived when the step function is entered. The time of callbacks further down the
    list is included.
    """

    mechanism = "timed fetch"
    reads_early = True
    confidence: Confidence = "upper bound"

    def __init__(self) -> None:
        self._requested_s: float | None = None
        self._waited_s = self._before_s = 0.0

    def requested(self) -> None:
        """Notes that batches are requested."""
        self._requested_s = time.perf_counter()

    def fetched(self) -> None:
        """Notes that the batches have arrived."""
        if self._requested_s is not None:
            self._waited_s += time.perf_counter() - self._requested_s
            self._requested_s = None

    def waited_s(self) -> None:
        """Returns None: the batches of a call are fetched before it is known that it will come."""

    def take(self) -> float:
        """Returns the time waited so far, in seconds."""
        return self._waited_s

    def start(self, taken: float, first: Stretch) -> None:
        """Starts a stretch; the wait for the first batch is unknown."""
        self._before_s = taken

    def read(self, taken: Sequence[float], stretch: Stretch) -> WaitReading:
        """Returns the wait of a stretch, and starts the next one."""
        before_s, self._before_s = self._before_s, taken[-1]
        return WaitReading(self._before_s - before_s)
