"""Searches for the largest batch size that fits, then measures the rates of it and smaller ones."""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import count, islice

from keras_gpukit.records.batch_size import BatchSizeEnding, BatchSizeTrial
from keras_gpukit.reports import units
from keras_gpukit.rules.compute import batch_size as rules
from keras_gpukit.trials.batch_sizes.bisection import Bisection, halves
from keras_gpukit.trials.batch_sizes.estimate import Estimate
from keras_gpukit.trials.batch_sizes.time_plan import LAST_EPOCHS, LEAST_STEPS, TimePlan
from keras_gpukit.trials.batch_sizes.trainer import DoesNotFit, Survey, Work
from keras_gpukit.trials.batch_sizes.trials import Trials

# Number of last trials, which confirm the recommended size. Memory is divided differently in each
# trial, so one may pass by chance. Beyond the minimum, their number depends on the time.
LEAST_CONFIRMATIONS, MOST_CONFIRMATIONS = 2, 6
# Size of the smaller batch at the end of each epoch, as a share of the batch size. The last trials
# use these shares in turn, cyclically. With 1/3, a wide dense model failed most often.
LAST_BATCHES = (1 / 3, 1 / 2, 1 / 8, 7 / 8)
# Small trials fit in any case and show the memory per example. They start at the first share of the
# predicted size, or at `FIRST` examples. They end at the second share of the expected size.
FIRST_SHARE, FIRST = 1 / 8, 16
SMALL_SHARE = 1 / 3
# Number of rates for which time is reserved before a last trial beyond the minimum starts.
RATES_KEPT = 4
# If a batch size is slower than the best by more than this factor, smaller ones are not measured.
TOO_SLOW = 1.5
# Doublings without a gain that end the search for the fastest, if no memory limit is known.
NO_GAIN = 2
# Share of the host's free memory that a batch may take, if no memory limit is known.
HOST_SHARE = 0.5


class Finding:
    """One search for the largest and the fastest batch size.

    Args:
        trials: Runs the trials.
        most: Maximum batch size to look for.
        seconds: Total time for the search.
        input_rate: Rate of the input in examples/s; None if it was not measured.
        tell: Called with a description of the next trial.

    Attributes:
        done: The trials so far.
        ending: Reason why the search ended.
        largest: The largest batch size that fits with a margin; None if unknown.
        predicted: Batch size predicted to fill the device, before any trial; None if unknown.
    """

    def __init__(
        self,
        trials: Trials,
        *,
        most: int,
        seconds: float,
        input_rate: float | None,
        tell: Callable[[str], None],
    ) -> None:
        self.done: list[BatchSizeTrial] = []
        self.ending: BatchSizeEnding = "nothing left to try"
        self.largest: int | None = None
        self.predicted: int | None = None
        self._trials = trials
        self._most = most
        self._plan = TimePlan(seconds)
        self._input_rate = input_rate
        self._tell = tell
        # Whether the process of the current trials has trained a model yet.
        self._trained = False

    @property
    def rates(self) -> dict[int, float]:
        """Rates of training on batches in memory, in examples/s, by batch size."""
        return {each.batch_size: each.rate.median for each in self.done if each.rate is not None}

    def survey(self) -> Survey | None:
        """Trains one example and predicts the memory; returns None if one example does not fit."""
        self._tell("one example")
        began = time.perf_counter()
        try:
            survey = self._trials.survey()
            took_s = time.perf_counter() - began - survey.predicting_s
            self._plan.note_start(took_s, survey.first_step_s)
            self._trained = True
            return survey
        except DoesNotFit as error:
            self.done.append(BatchSizeTrial(1, False, note=str(error)))
            self.ending = "not even one example fits"
            return None

    def find_largest(self, survey: Survey) -> None:
        """Finds the largest batch size that fits, and confirms it by longer trials.

        Args:
            survey: Result of the survey of the model.
        """
        estimate = Estimate(survey)
        self.predicted = estimate.largest(1.0)
        plan = self._plan
        bisection = Bisection(rules.without_margin(self._most), cautious=plan.starts_slowly)
        self._try_small(bisection, estimate)
        while (size := bisection.next) is not None:
            goes_on = self._goes_on(size)
            trial_s = plan.trial_s(size, goes_on=goes_on)
            if not self._is_time_for(trial_s + self._needed_after_s(size, bisection.is_narrow)):
                break
            if not goes_on:
                self._renew()
            self._note(bisection, estimate, size)
        self.largest = self._confirmed(max(bisection.passed, 1), estimate)

    def measure_below(self, largest: int) -> None:
        """Measures the rates of the largest batch size and of powers of two below it.

        Args:
            largest: Largest batch size that fits.
        """
        for size in halves(largest):
            if not self._rate(size):
                return
            if size in self.rates and self._is_slow(size):
                return

    def measure_from_one(self, survey: Survey, free_bytes: int | None) -> None:
        """Measures the rates of increasing powers of two until larger ones are no faster.

        Args:
            survey: Result of the survey of the model.
            free_bytes: Free memory of the host; None if unknown.
        """
        most = self._most
        if free_bytes is not None:
            fitting = Estimate(survey).filling(int(HOST_SHARE * free_bytes))
            most = min(most, fitting or most)
        best, without = 0.0, 0
        for size in (2**power for power in count()):
            if size > most or not self._rate(size) or size not in self.rates:
                return
            rate = rules.with_input(self.rates[size], self._input_rate)
            without = without + 1 if rules.is_as_fast(best, rate) else 0
            best = max(best, rate)
            if without == NO_GAIN:
                return

    def _goes_on(self, size: int) -> bool:
        """Whether to try a batch size in the process in which a smaller one has just passed.

        Smaller steps have divided its memory into pieces, which does not make passing easier. So a
        size that passes would also pass in a new process. A size that fails might pass in one.
        """
        last = self.done[-1]
        again = any(each.batch_size == size for each in self.done)
        goes_up = last.fits and size > last.batch_size and not again
        return self._plan.starts_slowly and self._trained and goes_up

    def _renew(self, *, again: bool = True) -> None:
        self._trials.renew(again=again)
        self._trained = False

    def _needed_after_s(self, size: int, is_narrow: bool) -> float:
        """Returns the seconds to reserve for the last trials and the first rates.

        While the bracket is wide, narrowing it is worth more than all but one of the last trials.
        """
        plan = self._plan
        if not is_narrow:
            return plan.last_s(size)
        return (
            LEAST_CONFIRMATIONS * plan.last_s(size)
            + plan.measuring_s(size)
            + plan.measuring_s(size // 2)
        )

    def _confirmed(self, passed: int, estimate: Estimate) -> int | None:
        """Runs the last trials, and returns the recommended size; None if no size passes them."""
        candidate, failures = min(rules.with_margin(passed), self._most), 0
        while not self._is_confirmed(candidate, estimate):
            if candidate == 1:
                self.ending = "not even one example fits"
                return None
            # If time is short, each step down is larger than the one before.
            is_time = self._is_time_for(self._plan.last_s(candidate))
            failures = failures + 1 if is_time else 2 * failures + 1
            candidate = rules.lowered(candidate, failures)
        return candidate

    def _is_confirmed(self, size: int, estimate: Estimate) -> bool:
        """Runs the last trials of a batch size with memory withheld; returns whether all passed."""
        plan, withheld = self._plan, estimate.examples_bytes(rules.WITHHELD * size, size)
        for number in range(1, MOST_CONFIRMATIONS + 1):
            if number > LEAST_CONFIRMATIONS:
                if plan.left_s < plan.last_s(size) + self._rates_s(size):
                    break
            elif number > 1 and not self._is_time_for(plan.last_s(size)):
                break
            self._renew(again=number < MOST_CONFIRMATIONS)
            what = f"batches of {size:,}, for longer ({number})"
            self._train(size, what, self._longer(size, number, withheld))
            if not self.done[-1].fits:
                return False
        return True

    def _rates_s(self, size: int) -> float:
        """Returns the seconds to reserve for rates before a further last trial of the same size."""
        return sum(self._plan.measuring_s(each) for each in islice(halves(size), RATES_KEPT))

    def _try_small(self, bisection: Bisection, estimate: Estimate) -> None:
        """Runs trials that are expected to fit, to correct the prediction by their peaks."""
        size = int(FIRST_SHARE * self.predicted) if self.predicted else FIRST
        while True:
            size = max(1, min(size, self._most))
            self._note(bisection, estimate, size, small=True)
            if not self.done[-1].fits:
                self._renew()
                if size == 1 or bisection.passed:
                    return
                size //= 4
                continue
            expected = min(estimate.largest() or 4 * self._most, self._most)
            if size >= SMALL_SHARE * expected / 2 or bisection.failed is not None:
                return
            size = min(4 * size, int(SMALL_SHARE * expected) + 1)

    def _note(
        self, bisection: Bisection, estimate: Estimate, size: int, *, small: bool = False
    ) -> None:
        goes_on, what = self._trained, f"batches of {size:,}"
        if small:
            work = Work(steps=LEAST_STEPS)
        elif self._plan.starts_slowly:
            # The work of a last trial: a later failure would need another slow start.
            work = self._longer(size)
        else:
            work = Work(self._plan.steps(size))
        estimate.note(size, self._train(size, what, work))
        expected = estimate.largest()
        if expected is not None and expected <= size * (1 + rules.RESOLUTION):
            # Near the limit, continue with the smallest size that should not fit in any case.
            filling = estimate.largest(1.0)
            expected = None if filling is None else int(filling * (1 + rules.RESOLUTION)) + 1
        fits = self.done[-1].fits
        if fits:
            # Drop its earlier failure, which came only after smaller sizes in the same process.
            self.done = [each for each in self.done if each.fits or each.batch_size != size]
        bisection.note(size, fits, expected, in_doubt=goes_on)

    def _longer(self, size: int, number: int = 1, withheld_bytes: int = 0) -> Work:
        last = LAST_BATCHES[(number - 1) % len(LAST_BATCHES)]
        return Work(self._plan.last_steps(size), LAST_EPOCHS, last, withheld_bytes)

    def _train(self, size: int, what: str, work: Work) -> int | None:
        """Runs a trial; returns its peak in bytes, or None if it fails or the peak is unknown."""
        self._tell(what)
        began = time.perf_counter()
        try:
            found = self._trials.train(size, work)
        except DoesNotFit as error:
            self._plan.note_failed(time.perf_counter() - began, goes_on=self._trained)
            self.done.append(BatchSizeTrial(size, False, note=_note(error, work.withheld_bytes)))
            return None
        took_s = time.perf_counter() - began
        self._plan.note(size, work.executions, took_s, found.step_s, goes_on=self._trained)
        self._trained = True
        self.done.append(BatchSizeTrial(size, True, found.peak_bytes))
        return found.peak_bytes

    def _rate(self, size: int) -> bool:
        """Measures the rate of a batch size if it fits; returns False if time was too short."""
        if self.rates and not self._is_time_for(self._plan.measuring_s(size)):
            return False
        self._tell(f"speed with batches of {size:,}")
        try:
            rate, peak = self._trials.rate(size, self._plan.rate_s)
        except DoesNotFit as error:
            self.done.append(BatchSizeTrial(size, False, note=str(error)))
            self._renew(again=False)
        else:
            self._plan.note_rate(rate.median)
            self.done.append(BatchSizeTrial(size, True, peak, rate))
        return True

    def _is_slow(self, size: int) -> bool:
        actual = [rules.with_input(each, self._input_rate) for each in self.rates.values()]
        return TOO_SLOW * rules.with_input(self.rates[size], self._input_rate) < max(actual)

    def _is_time_for(self, seconds: float) -> bool:
        is_time = seconds <= self._plan.left_s
        if not is_time:
            self.ending = "time ran out"
        return is_time


def _note(error: DoesNotFit, withheld_bytes: int) -> str:
    return f"{error}, with {units.size(withheld_bytes)} held back" if withheld_bytes else str(error)
