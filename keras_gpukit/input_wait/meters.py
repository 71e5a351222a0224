"""What a measure of the input wait is given, and what it gives.

Keras fetches the batch inside its step function, so callbacks cannot see the wait. A meter gets
when the step function was entered and left, and says how much of that time was spent waiting.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from keras_gpukit.records.steps import Confidence

Times = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Stretch:
    """Consecutive calls of a step function, from one's entry to that of the call after the last.

    Attributes:
        entries_s: When each call was entered, and the call after them. Shape (calls + 1,).
        exits_s: When each call returned. Shape (calls,).
        next_exit_s: When the call after them returned.
        raised: Whether one more call raised before `take` was called for the last time, as at the
            end of the data.
    """

    entries_s: Times
    exits_s: Times
    next_exit_s: float
    raised: bool = False

    @property
    def calls(self) -> int:
        """Calls in the stretch."""
        return len(self.exits_s)

    @functools.cached_property
    def durations_s(self) -> Times:
        """From each call's entry to the next. Shape (calls,)."""
        return self.entries_s[1:] - self.entries_s[:-1]

    @property
    def duration_s(self) -> float:
        """From the first entry to the last."""
        return float(self.entries_s[-1] - self.entries_s[0])


@dataclass(frozen=True)
class WaitReading:
    """Stall within a stretch.

    Attributes:
        wait_s: All calls together; None where this stretch cannot be known.
        waits_s: Of each call, where each is known; a single one may be off by microseconds and
            below zero. Shape (calls,).
        buffered_batches: Fill of the pipeline's last buffer.
        unknown_because: Why the wait is None, where it is.
    """

    wait_s: float | None
    waits_s: Times | None = None
    buffered_batches: float | None = None
    unknown_because: str | None = None


@dataclass(frozen=True)
class PipelineStart:
    """The wait for the first batch of a pipeline.

    Attributes:
        wait_s: All of it. Where the first call also traced, that is in it.
        shuffle_fraction: The part of it that filled shuffle buffers, 0 to 1; None if unknown.
    """

    wait_s: float
    shuffle_fraction: float | None


class Meter(Protocol):
    """Measures the stall of one iterator."""

    mechanism: str
    confidence: Confidence
    reads_early: bool
    """Whether readings at the pipeline's start, and soon after, are of use. Without them, `start`
    is given None, and called after the next reading where it can be put off until then."""

    def waited_s(self) -> float | None:
        """Returns all waits so far, in seconds; None if only those of a stretch can be known."""

    def take(self) -> Any:
        """Reads what cannot be read later.

        Training waits meanwhile, on caches that its step has just emptied.
        """

    def start(self, taken: Any, first: Stretch) -> PipelineStart | None:
        """Begins a stretch at the entry of the pipeline's second call.

        Args:
            taken: What `take` returned after that call.
            first: The pipeline's first call.
        """

    def read(self, taken: Sequence[Any], stretch: Stretch) -> WaitReading:
        """Ends the stretch, says how long it waited, and begins the next one.

        Args:
            taken: What `take` returned within it, in order; the last at its end.
            stretch: Its calls.
        """
