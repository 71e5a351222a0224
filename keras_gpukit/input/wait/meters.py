"""The interface of the meters that measure the input wait, and meters that add up fetches.

In `fit` and `evaluate`, Keras fetches the batch inside its step function, so callbacks cannot see
the wait. A meter is given the times at which the step function was entered and left, and returns
how much of that time was spent waiting.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from keras_gpukit.records.steps import Confidence, Mechanism

Times = npt.NDArray[np.float64]


class NotMeasurable(Exception):
    """A meter does not fit an iterator; the message is the reason, one sentence for people."""


@dataclass(frozen=True)
class CallWindow:
    """Consecutive calls of a step function, up to the entry of the call after the last one.

    `entries_s` has that entry too: shape (calls + 1,). `raised` is whether one more call raised
    before the last call of `take`, for example at the end of the data.
    """

    entries_s: Times
    exits_s: Times
    next_exit_s: float
    raised: bool = False

    @property
    def calls(self) -> int:
        """Number of calls in the window."""
        return len(self.exits_s)

    @functools.cached_property
    def durations_s(self) -> Times:
        """Seconds from each call's entry to the next entry. Shape (calls,)."""
        return self.entries_s[1:] - self.entries_s[:-1]

    @property
    def duration_s(self) -> float:
        """Seconds from the first entry to the last."""
        return float(self.entries_s[-1] - self.entries_s[0])


@dataclass(frozen=True)
class WaitReading:
    """Input wait of a window: of all calls together, and of each one; None if unknown.

    A single call's may be off by microseconds, and negative. If only a range is known, `most_s` is
    its upper end, and the others are its lower end.
    """

    wait_s: float | None
    waits_s: Times | None = None
    buffered_batches: float | None = None
    unknown_because: str | None = None
    most_s: float | None = None


@dataclass(frozen=True)
class PipelineStart:
    """Wait for the first batch of a pipeline, with tracing if the first call traced.

    `shuffle_fraction` is the share of it that filled shuffle buffers; None if unknown.
    """

    wait_s: float
    shuffle_fraction: float | None


class Meter(Protocol):
    """Measures the input wait of one iterator."""

    mechanism: Mechanism
    confidence: Confidence
    reads_early: bool
    """Whether readings at and soon after the pipeline's start are useful. If not, `start` is passed
    None, and is called after the next reading if it can be deferred until then."""

    def waited_s(self) -> float | None:
        """Returns the total wait so far, in seconds; None if it is only known per window."""

    def take(self) -> Any:
        """Reads the values that cannot be read later; must be fast.

        Training is blocked meanwhile, and caches are cold after the step.
        """

    def start(self, taken: Any, first: CallWindow) -> PipelineStart | None:
        """Starts a window at the entry of the pipeline's second call.

        Gets the result of `take` after that call, or None if `reads_early` is False, and the
        window of the first call. Returns the wait for the first batch; None if unknown.
        """

    def wait_of(self, taken: Sequence[Any], window: CallWindow) -> WaitReading:
        """Ends the window, returns its wait, and starts the next one.

        Gets the results of `take` within the window, in order; the last one is from its end.
        """


class FetchLatencyMeter:
    """Reads the total latency of fetches that tf.data adds up, for pipelines without a model.

    If fetching `overlaps` compute, as with several steps in one call, the wait is an upper bound.
    """

    mechanism: Mechanism = "fetch latency"
    reads_early = True

    def __init__(self, total_s: Callable[[], float], *, overlaps: bool) -> None:
        self.confidence: Confidence = "upper bound" if overlaps else "exact"
        self.waited_s = self.take = total_s
        self._before_s: float = total_s()
        self._until_s = 0.0

    def start(self, taken: float, first: CallWindow) -> None:
        """Starts a window."""
        self._before_s = taken
        self._until_s = first.next_exit_s

    def wait_of(self, taken: Sequence[float], window: CallWindow) -> WaitReading:
        """Returns the wait of a window, and starts the next one."""
        # Fetch times are known between the ends of two calls, not between two entries.
        before_s, self._before_s = self._before_s, taken[-1]
        since_s, self._until_s = self._until_s, window.next_exit_s
        share = min((taken[-1] - before_s) / max(self._until_s - since_s, 1e-9), 1.0)
        return WaitReading(share * window.duration_s)


class RequestMeter:
    """Adds up the time from the request for batches to their arrival.

    `Model.predict` fetches batches outside its step function. Callbacks see the request, and the
    batches have arrived when the step function is entered. The time of callbacks further down the
    list is included.
    """

    mechanism: Mechanism = "timed fetch"
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

    def start(self, taken: float, first: CallWindow) -> None:
        """Starts a window; the wait for the first batch is unknown."""
        self._before_s = taken

    def wait_of(self, taken: Sequence[float], window: CallWindow) -> WaitReading:
        """Returns the wait of a window, and starts the next one."""
        before_s, self._before_s = self._before_s, taken[-1]
        return WaitReading(self._before_s - before_s)
