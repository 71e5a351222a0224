"""Tries changes one after another, each against the best so far, within a time limit."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from keras_gpukit.measuring.intervals import summarize
from keras_gpukit.measuring.rounds import LEAST, Gain, Read, compare
from keras_gpukit.records.diagnosis import Rate
from keras_gpukit.records.tuning import Ending, Trial
from keras_gpukit.rules import gains

# One trial's share of what is left, and its longest time.
SHARE, LONGEST_S = 0.4, 10.0
# Smallest share reserved for comparing the tuned pipeline with the first.
RESERVE = 0.15
# With less than this share left, no trial starts.
LEAST_LEFT = 0.03

Decide = Callable[[Gain], str]
"""Why a change that is faster may not be kept; "" where it may."""


@dataclass(frozen=True)
class Attempt:
    """A change, ready to be tried.

    Attributes:
        name: Stable identifier.
        description: The change in words.
        before: Reads the best so far.
        after: Reads it with the change.
        decide: Asked about a change that is faster.
        note: A remark on the change.
        overlaps: Whether it is read next to a step; reading alone would not show its gain.
        is_last: Whether it may take all the time that is left.
    """

    name: str
    description: str
    before: Read
    after: Read
    decide: Decide
    note: str = ""
    overlaps: bool = False
    is_last: bool = False


class Trials:
    """Runs trials and records them.

    Args:
        first: Reads the pipeline as it came.
        seconds: Time for everything.
        compute_rate: How fast the model trains; None without a model.
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
        """Rate of the pipeline as it came."""
        self.best = self.first_rate
        """Rate of the best so far, read alone."""
        self._gains: list[Gain] = []

    @property
    def ending(self) -> Ending | None:
        """Why no more is tried; None while there is time and reason for more."""
        if gains.input_suffices(self.best, self._compute_rate):
            return "the model is no faster"
        return "time ran out" if self._left_s < self._least_left_s else None

    @property
    def _left_s(self) -> float:
        return self._ends - time.perf_counter()

    def run(self, attempt: Attempt) -> Trial:
        """Tries a change."""
        self._tell(attempt.description)
        seconds = self._left_s if attempt.is_last else min(LONGEST_S, SHARE * self._left_s)
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
        """Records a change that could not be tried."""
        self.done.append(Trial(name, description, note=reason))

    def confirm(self, best: Read) -> Gain | None:
        """Compares the pipeline as it came with the tuned one.

        Returns:
            The gain; None if no change is kept.
        """
        kept = sum(trial.kept for trial in self.done)
        if not kept:
            return None
        if kept == len(self._gains) == 1:
            return self._gains[0]  # the first is what it was compared with
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


def small_gain(trial: Trial) -> float:
    """Returns the gain that a rejected change may still have; 1.0 for any other."""
    if trial.kept or trial.gain is None or trial.low is None or trial.high is None:
        return 1.0
    return gains.possible(trial.gain, trial.low, trial.high)
