"""The input wait where batches are fetched outside the step function."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from keras_gpukit.input_wait.meters import PipelineStart, Stretch, WaitReading
from keras_gpukit.records.steps import Confidence


class RequestMeter:
    """Adds up the time from asking for batches to having them, where both can be seen.

    `Model.predict` fetches outside its step function: callbacks see the request, and the step
    function's entry is the answer. What callbacks further down the list do meanwhile is in it.

    Args:
        now: The clock, in seconds.
    """

    mechanism = "timed fetch"
    reads_early = True
    confidence: Confidence = "upper bound"

    def __init__(self, now: Callable[[], float] = time.perf_counter) -> None:
        self._now = now
        self._requested_s: float | None = None
        self._waited_s = self._before_s = 0.0

    def requested(self) -> None:
        """Batches are asked for."""
        self._requested_s = self._now()

    def fetched(self) -> None:
        """The batches are there."""
        if self._requested_s is not None:
            self._waited_s += self._now() - self._requested_s
            self._requested_s = None

    def waited_s(self) -> None:
        """Unknown for a single call: its batches are fetched before it is known to come."""

    def take(self) -> float:
        """Returns the time waited so far, in seconds."""
        return self._waited_s

    def start(self, taken: float, first: Stretch) -> PipelineStart | None:
        """Begins a stretch."""
        self._before_s = taken
        return None

    def read(self, taken: Sequence[float], stretch: Stretch) -> WaitReading:
        """Says how long a stretch waited."""
        before_s, self._before_s = self._before_s, taken[-1]
        return WaitReading(self._before_s - before_s)
