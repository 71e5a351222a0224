"""Tries changes one after another, then the best together, each against the unchanged training."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from keras_gpukit.errors import TrialError, one_line
from keras_gpukit.records.tuning import Promise, SpeedupEnding, SpeedupSearch, TriedChange
from keras_gpukit.rules import gains
from keras_gpukit.tuning.measured_fit import COMPARED_SHARE, Ready, TrialFailedError
from keras_gpukit.tuning.measured_rates import summarize
from keras_gpukit.tuning.processes import OwnProcess, ProcessEndedError
from keras_gpukit.tuning.training_changes import TrainingChange, batch_size
from keras_gpukit.tuning.trials import LEAST, Read, compare

LONGEST_S = 20.0
"""Maximum seconds in which a change and the unchanged training are measured in turn."""
RESERVE = 0.25
"""Share of the time that is kept, once a change gains, for the best changes together."""
ROUND_S = 0.5
"""Duration of one measurement."""
LEAST_WAIT_S = 60.0
JOINED = " + "
_LATE = "time ran out"

Start = Callable[[Sequence[TrainingChange], float | None], OwnProcess]
"""Function that starts a process with changes. The number of examples at which losses are compared
is None for the unchanged training."""


class TrainingProcess:
    """A process that trains with changes, and measures its rate; else `TrialFailedError` is raised.

    Its `fit` must have started by `until_s`, on `time.monotonic`.
    """

    def __init__(self, process: OwnProcess, until_s: float) -> None:
        self._process = process
        self.is_finite = True
        self.close = process.close
        try:
            wait_s = max(until_s - time.monotonic(), LEAST_WAIT_S)
            if not process.connection.poll(wait_s):
                raise TrialFailedError(f"its first fit() did not start within {wait_s:.0f} s")
            self.ready: Ready = self._answer(process.reply)
        except BaseException:
            self.close()
            raise

    def rate(self) -> float:
        """Trains for a moment, and returns the rate."""
        rate, loss = self._answer(self._process.ask, ROUND_S)
        self.is_finite = self.is_finite and (loss is None or abs(loss) < float("inf"))
        return float(rate)

    def _answer(self, ask: Callable[..., Any], *question: Any) -> Any:
        try:
            return ask(*question)
        except ProcessEndedError as error:
            last = next(reversed(error.log.strip().splitlines()), "")
            ended = f"its process ended with code {error.code}: {one_line(last)}"
            raise TrialFailedError(ended, error.memory) from None


@dataclass(eq=False)
class SpeedupTrials:
    """Tries changes and records them.

    A trial that has started is finished even if it takes longer than `seconds` in all. A change is
    kept if the loss differs by `tolerance` at most. The `recorded` promises, of findings on an
    earlier run, are used where this one has none.
    """

    start: Start
    seconds: float
    tolerance: float
    show_progress: Callable[[str], None]
    recorded: Sequence[Promise] = ()

    def __post_init__(self) -> None:
        self._began_s = time.monotonic()
        self._ends_s = self._began_s + self.seconds
        self._done: list[TriedChange] = []
        self._kept: dict[str, tuple[TriedChange, TrainingChange]] = {}
        self._rates: list[float] = []
        self._starting_s = 0.0
        # Whether two processes in turn need more memory than there is.
        self._one_at_a_time = False
        self._baseline: TrainingProcess | None = None
        self._first: Ready

    def run(self, subject: str, asked: Sequence[str] = ()) -> SpeedupSearch:
        """Tries the changes that are asked for, or all that suit; returns what is known then."""
        try:
            self._measure_unchanged()
            ending = self._try_all(asked)
        except KeyboardInterrupt:
            if not self._rates:
                raise
            ending = "interrupted"
        finally:
            if self._baseline is not None:
                self._baseline.close()
        kept = [trial for trial in self._done if trial.kept]
        tried = {trial.change for trial in self._done if trial.note != _LATE}
        left = {proposal.name for proposal in self._first.proposals} - tried
        return SpeedupSearch(
            subject=subject,
            rate=summarize(self._rates, self._first.unit),
            first_step_s=self._first.first_step_s,
            trials=tuple(self._done),
            best=max(kept, key=lambda trial: trial.gain or 0.0, default=None),
            tolerance=self.tolerance,
            ending=ending,
            duration_s=time.monotonic() - self._began_s,
            by_hand=gains.by_hand(self._first.findings, self._done, left),
        )

    def _measure_unchanged(self) -> None:
        self.show_progress("the training as it is")
        try:
            self._baseline = TrainingProcess(self.start((), None), self._ends_s)
            self._first = self._baseline.ready
            self._rates += [self._baseline.rate() for _ in range(LEAST)]
        except TrialFailedError as error:
            raise TrialError(f"The unchanged training cannot be measured: {error}") from error
        self._starting_s = time.monotonic() - self._began_s

    def _try_all(self, asked: Sequence[str]) -> SpeedupEnding:
        proposals = {proposal.name: proposal for proposal in self._first.proposals}
        known = [name for name in gains.CHANGES if name in proposals]
        names = asked or gains.in_order(known, self._promises)
        ending: SpeedupEnding = "nothing left to try"
        for name in names:
            change = proposals.get(name)
            if change is None:
                self._note(TriedChange(name, name, note="this training is so already"))
            while change is not None:
                if not asked and not change.by_default:
                    change = replace(change, blocked=change.note)
                reserve_s = RESERVE * self.seconds if self._kept else 0.0
                is_late = self._left_s < self._starting_s + reserve_s
                if is_late and self._done and not change.blocked:
                    change, ending = replace(change, blocked=_LATE), "time ran out"
                change = self._try(change)
        if len(self._kept) > 1:
            made = sorted(self._kept.values(), key=lambda pair: -(pair[0].gain or 0.0))
            self._measure([change for _, change in made])
        return ending

    def _try(self, change: TrainingChange) -> TrainingChange | None:
        """Tries a change; returns another one that may gain more after this one was kept."""
        if change.blocked:
            self._note(TriedChange(change.name, change.description, note=change.blocked))
            return None
        before = self._kept.get(change.name)
        tried = self._measure([change])
        is_better = before is None or gains.SMALLEST * (before[0].gain or 1.0) <= (tried.gain or 0)
        if not tried.kept or not is_better:
            return None
        self._kept[change.name] = tried, change
        if change.batch_size is None:
            return None
        larger = batch_size(change.batch_size, change.examples)
        return None if larger.blocked else larger

    def _measure(self, changes: Sequence[TrainingChange]) -> TriedChange:
        name = JOINED.join(change.name for change in changes)
        description = JOINED.join(change.description for change in changes)
        self.show_progress(description)
        tried = TriedChange(name, description)
        try:
            tried = self._compared(tried, changes)
        except TrialFailedError as error:
            if error.memory and not self._one_at_a_time:
                self._one_at_a_time = True
                return self._measure(changes)
            tried = replace(tried, note=str(error))
        notes = [change.note for change in changes if change.note] if tried.kept else []
        return self._note(replace(tried, note="; ".join([*filter(None, [tried.note]), *notes])))

    def _compared(self, tried: TriedChange, changes: Sequence[TrainingChange]) -> TriedChange:
        examples = _compared_at(self._first)
        if self._one_at_a_time and self._baseline is not None:
            self._baseline.close()
            self._baseline = None
        found = None
        with closing(TrainingProcess(self.start(changes, examples), self._ends_s)) as process:
            if self._baseline is not None:
                seconds = min(LONGEST_S, max(self._left_s, 0.0))
                found = compare(
                    self._baseline.rate, process.rate, threshold=gains.SMALLEST, seconds=seconds
                )
        if found is None:
            alone = self._alone((), examples), self._alone(changes, examples)
            found = compare(*alone, threshold=gains.SMALLEST, seconds=0.0)
        self._rates += found.before
        # Tuning the input leaves the examples as they are, but a trial reads a sample of a cache.
        only_input = all(change.tunes_input for change in changes)
        ratio = None if only_input else _loss_ratio(self._first, process.ready)
        ratio = ratio if process.is_finite else math.nan
        note = gains.rejected_because(found.gain, found.low, found.high)
        note = note or gains.changes_the_loss(ratio, self.tolerance)
        return replace(
            tried,
            gain=found.gain,
            low=found.low,
            high=found.high,
            rate=summarize(found.after, process.ready.unit),
            first_step_s=process.ready.first_step_s,
            kept=not note,
            note=note,
            lines=process.ready.lines,
        )

    def _alone(self, changes: Sequence[TrainingChange], examples: float) -> Read:
        """Returns what measures a rate in a process that is the only one at the time."""

        def read_rate() -> float:
            with closing(TrainingProcess(self.start(changes, examples), self._ends_s)) as process:
                return process.rate()

        return read_rate

    def _note(self, tried: TriedChange) -> TriedChange:
        tried = replace(tried, promise=gains.promise_of(tried.change, self._promises))
        self._done.append(tried)
        return tried

    @property
    def _promises(self) -> tuple[Promise, ...]:
        own = self._first.promises
        codes = {promise.code for promise in own}
        return (*own, *(promise for promise in self.recorded if promise.code not in codes))

    @property
    def _left_s(self) -> float:
        return self._ends_s - time.monotonic()


def _compared_at(first: Ready) -> float:
    """Returns the number of examples at which losses are compared; 0 if no loss is known."""
    if not first.losses:
        return 0.0
    return first.losses[int(COMPARED_SHARE * (len(first.losses) - 1))][0]


def _loss_ratio(first: Ready, changed: Ready) -> float | None:
    """Returns the mean loss of a changed training, as a share of that of the unchanged one."""
    if not first.losses or not changed.losses:
        return None
    examples, losses = zip(*first.losses, strict=True)
    at, loss = changed.losses[-1]
    unchanged = float(np.interp(at, examples, losses))
    return loss / unchanged if unchanged else None
