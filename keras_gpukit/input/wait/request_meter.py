"""Measures the input wait if batches are fetched outside the step function."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from keras_gpukit.input.wait.meters import PipelineStart, Stretch, WaitReading
from keras_gpukit.records.steps import Confidence


class RequestMeter:
    """Adds up the time from the request for batches to their arrival.

    `Model.predict` fetches batches outside its step function. Callbacks see the request, and the
    batches have arrived when the step function is entered. The time of callbacks further down the
    list is included.

    Args:
        now: Clock that returns seconds.
    """

    mechanism = "timed fetch"
    reads_early = True
    confidence: Confidence = "upper bound"

    def __init__(self, now: Callable[[], float] = time.perf_counter) -> None:
        self._now = now
        self._requested_s: float | None = None
        self._waited_s = self._before_s = 0.0

    def requested(self) -> None:
        """Notes that batches are requested."""
        self._requested_s = self._now()

    def fetched(self) -> None:
        """Notes that the batches have arrived."""
        if self._requested_s is not None:
            self._waited_s += self._now() - self._requested_s
            self._requested_s = None

    def waited_s(self) -> None:
        """Returns None: the batches of a call are fetched before it is known that it will come."""

    def take(self) -> float:
        """Returns the time waited so far, in seconds."""
        return self._waited_s

    def start(self, taken: float, first: Stretch) -> PipelineStart | None:
        """Starts a stretch; the wait for the first batch is unknown."""
        self._before_s = taken
        return None

    def read(self, taken: Sequence[float], stretch: Stretch) -> WaitReading:
        """Returns the wait of a stretch, and starts the next one."""
        before_s, self._before_s = self._before_s, taken[-1]
        return WaitReading(self._before_s - before_s)
