"""Tries changes one after another, each against the best pipeline so far, within a time limit."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from keras_gpukit.records.tuning import Rate, SearchEnding, Trial
from keras_gpukit.rules import gains
from keras_gpukit.tuning.measured_rates import mean_interval, summarize

# Maximum share of the remaining time for one trial, and its maximum duration in seconds.
SHARE, LONGEST_S = 0.4, 10.0
# Minimum share of the total time reserved for comparing the tuned pipeline with the original.
RESERVE = 0.15
# If a smaller share of the total time is left, no trial starts.
LEAST_LEFT = 0.03
# To try prefetching, each fetch is followed by a pause, as by a step. The pause is as long as
# making a batch takes, but at most this long.
LONGEST_STEP_S = 0.05

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
        self.after: list[float] = []

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
    """Reads two pipelines in turn until it is clear whether the second is faster."""
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
class Proposal:
    """A changed pipeline that may be faster than the original.

    Attributes:
        name: Stable identifier, such as "parallel-map".
        description: Description of the change for the user.
        dataset: The changed pipeline; None if the change cannot be tried.
        lines: Lines of code that must come before the code of the pipeline.
        blocked: Why the change cannot be tried, or is only measured and cannot be kept, however
            fast; "" if it can be kept.
        note: Remark on the change for the user; "" for none.
        overlaps: Whether the gain comes from making batches while the model trains. Readings then
            pause after each fetch, because reading alone would not show the gain.
    """

    name: str
    description: str
    dataset: Any = None
    lines: tuple[str, ...] = ()
    blocked: str = ""
    note: str = ""
    overlaps: bool = False


class Trials:
    """Runs trials and records them.

    Attributes:
        dataset: The best pipeline so far.
        lines: Lines of code that must come before its code.
        done: The trials so far.
        first_rate: Rate of the original pipeline.
        best: Rate of the best pipeline so far, read alone.
    """

    def __init__(
        self,
        dataset: Any,
        reader: Callable[[Any, float], Read],
        *,
        seconds: float,
        compute_rate: Rate | None,
        show_progress: Callable[[str], None],
    ) -> None:
        self.dataset = dataset
        self.lines: list[str] = []
        self.done: list[Trial] = []
        self._ends = time.perf_counter() + (1 - RESERVE) * seconds
        self._reserve_s, self._least_left_s = RESERVE * seconds, LEAST_LEFT * seconds
        self._compute_rate = compute_rate
        self._show_progress = show_progress
        self._reader = reader
        show_progress("as it is")
        self._first = reader(dataset, 0.0)
        self.first_rate = self.best = summarize([self._first() for _ in range(LEAST)])
        self._gains: list[Gain] = []

    @property
    def ending(self) -> SearchEnding | None:
        """Reason why no more changes are tried; None while more can be tried."""
        if gains.input_suffices(self.best, self._compute_rate):
            return "the model is no faster"
        return "time ran out" if self._left_s < self._least_left_s else None

    @property
    def _left_s(self) -> float:
        return self._ends - time.perf_counter()

    def run(self, proposal: Proposal, decide: Decide | None = None) -> Trial:
        """Tries a change against the best pipeline so far, if it can be, and records the trial."""
        if proposal.dataset is None:
            self.done.append(Trial(proposal.name, proposal.description, note=proposal.blocked))
            return self.done[-1]
        self._show_progress(proposal.description)
        seconds = min(LONGEST_S, SHARE * self._left_s)
        pause_s = min(LONGEST_STEP_S, 1 / self.best.median) if proposal.overlaps else 0.0
        before, after = (
            self._reader(dataset, pause_s) for dataset in (self.dataset, proposal.dataset)
        )
        found = compare(before, after, threshold=gains.SMALLEST, seconds=seconds)
        reason = gains.rejected_because(found.gain, found.low, found.high) or proposal.blocked
        if not reason and decide is not None:
            asked = time.perf_counter()
            reason = decide(found)
            # The user may take long to answer.
            self._ends += time.perf_counter() - asked
        trial = Trial(
            proposal.name,
            proposal.description,
            found.gain,
            found.low,
            found.high,
            kept=not reason,
            note=reason or proposal.note,
        )
        self.done.append(trial)
        if trial.kept:
            self.dataset = proposal.dataset
            self.lines += [line for line in proposal.lines if line not in self.lines]
            if not proposal.overlaps:
                self._gains.append(found)
                self.best = summarize(found.after)
        return trial

    def confirm(self, tuned: Any) -> Gain | None:
        """Returns the gain of the tuned pipeline over the original one; None if none is kept.

        If the gain does not hold, the kept changes are recorded as not kept.
        """
        kept = sum(trial.kept for trial in self.done)
        if not kept:
            return None
        if kept == len(self._gains) == 1:
            return self._gains[0]  # its trial already compared with the original pipeline
        self._show_progress("all changes together")
        seconds = self._reserve_s + max(self._left_s, 0.0)
        found = compare(self._first, self._reader(tuned, 0.0), threshold=1.0, seconds=seconds)
        if self._gains and found.low <= 1:
            note = "its gain did not hold"
            self.done = [
                replace(trial, kept=False, note=note) if trial.kept else trial
                for trial in self.done
            ]
            return None
        return found
