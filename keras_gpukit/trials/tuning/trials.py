"""Tries changes one after another, each against the best pipeline so far, within a time limit."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from keras_gpukit.records.diagnosis import Rate
from keras_gpukit.records.tuning import Ending, Trial
from keras_gpukit.rules import gains
from keras_gpukit.trials.measuring.intervals import mean_interval, summarize

# Maximum share of the remaining time for one trial, and its maximum duration in seconds.
SHARE, LONGEST_S = 0.4, 10.0
# Minimum share of the total time reserved for comparing the tuned pipeline with the original.
RESERVE = 0.15
# If a smaller share of the total time is left, no trial starts.
LEAST_LEFT = 0.03

Read = Callable[[], float]
"""Function that starts a pipeline, reads it briefly, and returns its rate in batches/s."""

LEAST, MOST = 4, 20
"""The smallest and the largest number of rounds."""

# exp() of a larger exponent overflows.
LARGEST_EXPONENT = 700.0


class Gain:
    """Ratio of the rates of two pipelines, from rounds that each measure both."""

    def __init__(self) -> None:
        self.before: list[float] = []
        """Rates of the first pipeline, in batches/s."""
        self.after: list[float] = []
        """Rates of the second pipeline, in batches/s."""

    @property
    def gain(self) -> float:
        """Geometric mean of the rounds' ratios (second pipeline over first)."""
        return math.exp(statistics.fmean(self._logarithms))

    @property
    def low(self) -> float:
        """Lower end of the gain's 95 % interval (Student's t interval of the logarithms)."""
        return math.exp(mean_interval(self._logarithms)[0])

    @property
    def high(self) -> float:
        """Upper end of the gain's 95 % interval."""
        return math.exp(min(mean_interval(self._logarithms)[1], LARGEST_EXPONENT))

    @property
    def _logarithms(self) -> list[float]:
        pairs = zip(self.before, self.after, strict=True)
        return [math.log(after / before) for before, after in pairs]


def compare(before: Read, after: Read, *, threshold: float, seconds: float) -> Gain:
    """Reads two pipelines in turn until it is clear whether the second is faster.

    Args:
        before: Reads the unchanged pipeline.
        after: Reads the changed pipeline.
        threshold: Gain to decide on. Rounds end once the interval is entirely above or below it.
        seconds: Seconds after which no further round starts. The minimum number of rounds always
            runs.
    """
    ends = time.perf_counter() + seconds
    found = Gain()
    turns = [(before, found.before), (after, found.after)]
    while len(found.before) < MOST:
        for read, rates in turns:
            rates.append(read())
        # Alternate the order, since the first pipeline may leave caches warm for the second.
        turns.reverse()
        clear = found.low > threshold or found.high < threshold
        if len(found.before) >= LEAST and (clear or time.perf_counter() >= ends):
            break
    return found


Decide = Callable[[Gain], str]
"""Function that returns why a faster change is not kept; "" if it is kept."""


@dataclass(frozen=True)
class Attempt:
    """A change that is ready to be tried.

    Attributes:
        name: Stable identifier, such as "parallel-map".
        description: Description of the change for the user.
        before: Reads the best pipeline so far.
        after: Reads that pipeline with the change.
        decide: Called if the change is faster; returns why it is not kept, or "".
        note: Remark on the change for the user; "" for none.
        overlaps: Whether readings pause after each fetch as in training, because reading alone
            would not show the gain.
    """

    name: str
    description: str
    before: Read
    after: Read
    decide: Decide
    note: str = ""
    overlaps: bool = False


class Trials:
    """Runs trials and records them.

    Args:
        first: Reads the original pipeline.
        seconds: Total time for all trials and the final comparison.
        compute_rate: Rate at which the model trains; None without a model.
        tell: Called with the current activity, for a progress line.
    """

    def __init__(
        self,
        first: Read,
        *,
        seconds: float,
        compute_rate: Rate | None,
        tell: Callable[[str], None],
    ) -> None:
        self.done: list[Trial] = []
        """The trials so far."""
        self._ends = time.perf_counter() + (1 - RESERVE) * seconds
        self._reserve_s, self._least_left_s = RESERVE * seconds, LEAST_LEFT * seconds
        self._compute_rate = compute_rate
        self._tell = tell
        self._first = first
        tell("as it is")
        self.first_rate = summarize([first() for _ in range(LEAST)])
        """Rate of the original pipeline."""
        self.best = self.first_rate
        """Rate of the best pipeline so far, read alone."""
        self._gains: list[Gain] = []

    @property
    def ending(self) -> Ending | None:
        """Reason why no more changes are tried; None while more can be tried."""
        if gains.input_suffices(self.best, self._compute_rate):
            return "the model is no faster"
        return "time ran out" if self._left_s < self._least_left_s else None

    @property
    def _left_s(self) -> float:
        return self._ends - time.perf_counter()

    def run(self, attempt: Attempt) -> Trial:
        """Tries a change and records the trial."""
        self._tell(attempt.description)
        seconds = min(LONGEST_S, SHARE * self._left_s)
        found = compare(attempt.before, attempt.after, threshold=gains.SMALLEST, seconds=seconds)
        reason = gains.rejected_because(found.gain, found.low, found.high)
        if not reason:
            asked = time.perf_counter()
            reason = attempt.decide(found)
            # The user may take long to answer.
            self._ends += time.perf_counter() - asked
        kept = not reason
        trial = Trial(
            attempt.name,
            attempt.description,
            found.gain,
            found.low,
            found.high,
            kept,
            reason or attempt.note,
        )
        self.done.append(trial)
        if kept and not attempt.overlaps:
            self._gains.append(found)
            self.best = summarize(found.after)
        return trial

    def skip(self, name: str, description: str, reason: str) -> None:
        """Records a change that was not tried."""
        self.done.append(Trial(name, description, note=reason))

    def confirm(self, best: Read) -> Gain | None:
        """Compares the original pipeline with the tuned one.

        If the gain does not hold, the kept changes are recorded as not kept.

        Returns:
            The gain of the tuned pipeline; None if no change is kept.
        """
        kept = sum(trial.kept for trial in self.done)
        if not kept:
            return None
        if kept == len(self._gains) == 1:
            return self._gains[0]  # its trial already compared with the original pipeline
        self._tell("all changes together")
        seconds = self._reserve_s + max(self._left_s, 0.0)
        found = compare(self._first, best, threshold=1.0, seconds=seconds)
        if self._gains and found.low <= 1:
            note = "its gain did not hold"
            self.done = [
                replace(trial, kept=False, note=note) if trial.kept else trial
                for trial in self.done
            ]
            return None
        return found
