"""Searches for the largest batch size that fits, then measures the rates of it and smaller ones."""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import count

from keras_gpukit.records.batch_size import BatchSizeEnding, BatchSizeTrial
from keras_gpukit.reports import units
from keras_gpukit.rules.compute import batch_size as rules
from keras_gpukit.sensors.host import left_bytes
from keras_gpukit.trials.batch_sizes.bisection import Bisection, halves
from keras_gpukit.trials.batch_sizes.estimate import Estimate
from keras_gpukit.trials.batch_sizes.trainer import DoesNotFit, InThisProcess, Survey, Work
from keras_gpukit.trials.batch_sizes.trial_process import InOwnProcesses

# Most sizes that do not fit fail in the first step, but not all.
STEPS, LAST_EPOCHS = 4, 2
# The last trials confirm the recommended size, each with another size of the smaller batch at the
# end of its epochs, as a share of the batch size. Memory is divided differently in each trial, so
# one may pass by chance. With 1/3, a wide dense model failed most often.
LAST_BATCHES = (1 / 3, 1 / 2, 1 / 8, 7 / 8)
# Small trials fit in any case and show the memory per example. They start at the first share of the
# predicted size, or at `FIRST` examples. They end at the second share of the expected size.
FIRST_SHARE, FIRST = 1 / 8, 16
SMALL_SHARE = 1 / 3
# Shares of the time after which the bracket stays as it is, and no more trials confirm its end.
SEARCH_SHARE, CONFIRM_SHARE = 0.6, 0.85
# Duration of measuring a rate: share of the total time, and maximum seconds.
RATE_SHARE, RATE_S = 1 / 60, 1.5
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
        trials: InThisProcess | InOwnProcesses,
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
        self._began, self._seconds = time.perf_counter(), seconds
        # Duration of the longest trial, and of the last one that passed.
        self._longest_s = self._passing_s = 0.0
        self._input_rate = input_rate
        self._tell = tell

    @property
    def rates(self) -> dict[int, float]:
        """Rates of training on batches in memory, in examples/s, by batch size."""
        return {each.batch_size: each.rate.median for each in self.done if each.rate is not None}

    def run(self) -> Survey | None:
        """Runs the search; returns what is known of the model, or None if no example fits."""
        self._tell("one example")
        try:
            survey = self._trials.survey()
        except DoesNotFit as error:
            self.done.append(BatchSizeTrial(1, False, note=str(error)))
            self.ending = "not even one example fits"
            return None
        estimate = Estimate(survey)
        if survey.limit_bytes is None:
            self._measure_from_one(estimate)
            return survey
        self.largest = self._confirmed(self._find_largest(estimate), estimate)
        for size in halves(self.largest) if self.largest else ():
            if not self._rate(size) or (size in self.rates and self._is_slow(size)):
                break
        return survey

    def _find_largest(self, estimate: Estimate) -> int:
        self.predicted = estimate.largest(1.0)
        bisection = Bisection(rules.without_margin(self._most))
        self._try_small(bisection, estimate)
        while (size := bisection.next) is not None:
            if not self._is_time(SEARCH_SHARE, self._longest_s):
                self.ending = "time ran out"
                break
            self._trials.renew()
            self._try(bisection, estimate, size)
        return max(bisection.passed, 1)

    def _try_small(self, bisection: Bisection, estimate: Estimate) -> None:
        """Runs trials that are expected to fit, to correct the prediction by their peaks."""
        size = int(FIRST_SHARE * self.predicted) if self.predicted else FIRST
        while True:
            size = max(1, min(size, self._most))
            if not self._try(bisection, estimate, size):
                self._trials.renew()
                if size == 1 or bisection.passed:
                    return
                size //= 4
                continue
            expected = min(estimate.largest() or 4 * self._most, self._most)
            if size >= SMALL_SHARE * expected / 2 or bisection.failed is not None:
                return
            size = min(4 * size, int(SMALL_SHARE * expected) + 1)

    def _try(self, bisection: Bisection, estimate: Estimate, size: int) -> bool:
        fits = self._train(size, f"batches of {size:,}", Work(STEPS))
        estimate.note(size, self.done[-1].peak_bytes)
        expected = estimate.largest()
        if expected is not None and expected <= size * (1 + rules.RESOLUTION):
            # Near the limit, continue with the smallest size that should not fit in any case.
            filling = estimate.largest(1.0)
            expected = None if filling is None else int(filling * (1 + rules.RESOLUTION)) + 1
        bisection.note(size, fits, expected)
        return fits

    def _confirmed(self, passed: int, estimate: Estimate) -> int | None:
        """Runs the last trials, and returns the recommended size; None if no size passes them."""
        candidate, failures = min(rules.with_margin(passed), self._most), 0
        while not self._is_confirmed(candidate, estimate):
            if candidate == 1:
                self.ending = "not even one example fits"
                return None
            # If time is short, each step down is larger than the one before.
            is_time = self._is_time(CONFIRM_SHARE, self._passing_s)
            failures = failures + 1 if is_time else 2 * failures + 1
            candidate = rules.lowered(candidate, failures)
        return candidate

    def _is_confirmed(self, size: int, estimate: Estimate) -> bool:
        """Runs the last trials of a batch size with memory withheld; returns whether all passed."""
        withheld_bytes = estimate.examples_bytes(rules.WITHHELD * size, size)
        for number, last in enumerate(LAST_BATCHES, 1):
            if number > 1 and not self._is_time(CONFIRM_SHARE, self._passing_s):
                break
            self._trials.renew()
            what = f"batches of {size:,}, for longer ({number})"
            if not self._train(size, what, Work(STEPS, LAST_EPOCHS, last, withheld_bytes)):
                return False
        return True

    def _train(self, size: int, what: str, work: Work) -> bool:
        self._tell(what)
        began = time.perf_counter()
        try:
            peak_bytes = self._trials.train(size, work)
            self._passing_s = time.perf_counter() - began
            self.done.append(BatchSizeTrial(size, True, peak_bytes))
        except DoesNotFit as error:
            held = f", with {units.size(work.withheld_bytes)} held back"
            note = f"{error}{held if work.withheld_bytes else ''}"
            self.done.append(BatchSizeTrial(size, False, note=note))
        self._longest_s = max(self._longest_s, time.perf_counter() - began)
        return self.done[-1].fits

    def _measure_from_one(self, estimate: Estimate) -> None:
        """Measures the rates of increasing powers of two until larger ones are no faster."""
        fitting = estimate.filling(int(HOST_SHARE * left_bytes()))
        best, without = 0.0, 0
        for size in (2**power for power in count()):
            if size > min(self._most, fitting or self._most) or not self._rate(size):
                return
            if size not in self.rates:
                return
            rate = rules.with_input(self.rates[size], self._input_rate)
            without = without + 1 if rules.is_as_fast(best, rate) else 0
            best = max(best, rate)
            if without == NO_GAIN:
                return

    def _rate(self, size: int) -> bool:
        """Measures the rate of a batch size if it fits; returns False if time was too short."""
        if self.rates and not self._is_time(1.0, self._passing_s):
            self.ending = "time ran out"
            return False
        self._tell(f"speed with batches of {size:,}")
        began = time.perf_counter()
        try:
            rate, peak = self._trials.rate(size, min(RATE_SHARE * self._seconds, RATE_S))
        except DoesNotFit as error:
            self.done.append(BatchSizeTrial(size, False, note=str(error)))
            self._trials.renew()
        else:
            self.done.append(BatchSizeTrial(size, True, peak, rate))
            self._passing_s = time.perf_counter() - began
        return True

    def _is_slow(self, size: int) -> bool:
        actual = [rules.with_input(each, self._input_rate) for each in self.rates.values()]
        return TOO_SLOW * rules.with_input(self.rates[size], self._input_rate) < max(actual)

    def _is_time(self, share: float, needed_s: float) -> bool:
        """Whether a trial that takes so long would end within a share of the time."""
        passed_s = time.perf_counter() - self._began
        return passed_s + needed_s <= share * self._seconds
