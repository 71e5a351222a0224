"""Searches for the largest batch size that fits, then measures the rates of it and smaller ones."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from keras_gpukit.records.tuning import BatchSizeEnding, BatchSizeTrial
from keras_gpukit.reports import units
from keras_gpukit.rules.compute import batch_size as rules
from keras_gpukit.tuning.isolated_trials import InOwnProcesses
from keras_gpukit.tuning.trainer import DoesNotFit, Survey, Trainer

# The search starts at a share of the predicted size, or at `FIRST` examples. It grows to the size
# that is expected to fill the device, by `GROWTH` times at most, and then by steps that double, the
# first one being `STEP`. Once a size has failed, it halves the bracket.
FIRST_SHARE, FIRST, GROWTH, STEP = 1 / 8, 16, 3, 0.05
# Share of a device's memory in use during the largest steps that fit. The rest is in pieces that
# are too small. It affects which size is tried next, but not where the search ends.
FILLED = 0.92
# The last trials confirm the recommended size, each with another size of the smaller batch at the
# end of its epochs, as a share of the batch size. Memory is divided differently in each trial, so
# one may pass by chance. With 1/3, a wide dense model failed most often.
LAST_BATCHES = (1 / 3, 1 / 2, 1 / 8, 7 / 8)
# Shares of the time after which the bracket stays as it is, and no more trials confirm its end.
SEARCH_SHARE, CONFIRM_SHARE = 0.6, 0.85
# Duration of measuring a rate: share of the total time, and maximum seconds.
RATE_SHARE, RATE_S = 1 / 60, 1.5
# If a batch size is slower than the best by more than this factor, smaller ones are not measured.
TOO_SLOW = 1.5
# Without a memory limit: doublings without a gain that end the search for the fastest.
NO_GAIN = 2

Point = tuple[int, int]
"""A batch size, and its peak memory in bytes."""


@dataclass(eq=False)
class SizeSearch:
    """One search for the largest and the fastest batch size.

    Attributes:
        done: The trials so far.
        ending: Reason why the search ended.
        largest: The largest batch size that fits with a margin; None if unknown.
        predicted: Largest batch size predicted to fit, before any trial; None if unknown.
    """

    trials: Trainer | InOwnProcesses
    most: int
    seconds: float
    input_rate: float | None
    show_progress: Callable[[str], None]
    done: list[BatchSizeTrial] = field(default_factory=list)
    ending: BatchSizeEnding = "nothing left to try"
    largest: int | None = None
    predicted: int | None = None

    def __post_init__(self) -> None:
        self._began = time.perf_counter()
        # Duration of the longest trial, and of the last one that passed.
        self._longest_s = self._passing_s = 0.0

    @property
    def rates(self) -> dict[int, float]:
        """Rates of training on batches in memory, in examples/s, by batch size."""
        return {
            trial.batch_size: trial.rate.median for trial in self.done if trial.rate is not None
        }

    def run(self) -> Survey | None:
        """Runs the search; returns what is known of the model, or None if no example fits."""
        self.show_progress("one example")
        try:
            survey = self.trials.survey()
        except DoesNotFit as error:
            self.done.append(BatchSizeTrial(1, False, note=str(error)))
            self.ending = "not even one example fits"
            return None
        if survey.limit_bytes is None:
            self._rates_upwards(survey.predicted)
            return survey
        self.predicted = survey.predicted
        self.largest = size = self._confirmed(self._find_largest(survey.limit_bytes))
        while size and self._rate(size) and not self._is_slow(size):
            size = 2 ** ((size - 1).bit_length() - 1) if size > 1 else 0
        return survey

    def _find_largest(self, limit_bytes: int) -> int:
        """Returns the end of a bracket: a size that passed, just below one that failed."""
        passed, step, most = 0, STEP, rules.without_margin(self.most)
        failed: int | None = None
        is_small = True  # fits in any case, so that it needs no new process
        size = int(FIRST_SHARE * self.predicted) if self.predicted else FIRST
        while passed < most and (failed is None or not rules.is_near_enough(passed, failed)):
            size = max(passed + 1, min(size, most))
            needed_s = 0.0 if is_small else self._longest_s
            if self.done and not self._is_time(SEARCH_SHARE, needed_s):
                self.ending = "time ran out"
                break
            if not is_small:
                self.trials.renew()
            if self._train(size, f"batches of {size:,}"):
                passed = size
            else:
                failed = size
            expected = _filling(self._peaks(), FILLED * limit_bytes) or GROWTH * passed
            is_small = failed is None and expected >= GROWTH * passed
            if failed is not None:
                size = (passed + failed) // 2 if passed else failed // 4
            elif expected > passed * (1 + rules.RESOLUTION):
                size = min(expected, GROWTH * passed)
            else:
                size = int(passed * (1 + step)) + 1
                step *= 2
        return max(passed, 1)

    def _confirmed(self, passed: int) -> int | None:
        """Runs the last trials, and returns the recommended size; None if no size passes them."""
        size, failures = min(rules.with_margin(passed), self.most), 0
        while not self._is_confirmed(size):
            if size == 1:
                self.ending = "not even one example fits"
                return None
            # If time is short, each step down is larger than the one before.
            is_time = self._is_time(CONFIRM_SHARE, self._passing_s)
            failures = failures + 1 if is_time else 2 * failures + 1
            size = rules.lowered(size, failures)
        return size

    def _is_confirmed(self, size: int) -> bool:
        """Runs the last trials of a batch size with memory withheld; returns whether all passed."""
        withheld_bytes = int(rules.WITHHELD * size * _example_bytes(self._peaks()))
        for number, last in enumerate(LAST_BATCHES, 1):
            if number > 1 and not self._is_time(CONFIRM_SHARE, self._passing_s):
                break
            self.trials.renew()
            if not self._train(size, f"batches of {size:,}, for longer", last, withheld_bytes):
                return False
        return True

    def _train(self, size: int, what: str, last: float = 0.0, withheld_bytes: int = 0) -> bool:
        self.show_progress(what)
        began = time.perf_counter()
        try:
            peak_bytes = self.trials.train(size, last, withheld_bytes)
            self._passing_s = time.perf_counter() - began
            self.done.append(BatchSizeTrial(size, True, peak_bytes))
        except DoesNotFit as error:
            held = f", with {units.size(withheld_bytes)} held back" if withheld_bytes else ""
            self.done.append(BatchSizeTrial(size, False, note=f"{error}{held}"))
        self._longest_s = max(self._longest_s, time.perf_counter() - began)
        return self.done[-1].fits

    def _peaks(self) -> list[Point]:
        """Returns the smallest and the largest batch size whose peak was measured."""
        peaks = {e.batch_size: e.peak_bytes for e in self.done if e.peak_bytes is not None}
        return [(size, peaks[size]) for size in (min(peaks), max(peaks))] if len(peaks) > 1 else []

    def _rates_upwards(self, fitting: int | None) -> None:
        """Measures the rates of increasing powers of two until larger ones are no faster."""
        best, without, size = 0.0, 0, 1
        while size <= min(self.most, fitting or self.most) and without < NO_GAIN:
            if not self._rate(size) or size not in self.rates:
                return
            rate = rules.with_input(self.rates[size], self.input_rate)
            without = without + 1 if rules.is_as_fast(best, rate) else 0
            best = max(best, rate)
            size *= 2

    def _rate(self, size: int) -> bool:
        """Measures the rate of a batch size if it fits; returns False if time was too short."""
        if self.rates and not self._is_time(1.0, self._passing_s):
            self.ending = "time ran out"
            return False
        self.show_progress(f"speed with batches of {size:,}")
        began = time.perf_counter()
        try:
            rate, peak = self.trials.rate(size, min(RATE_SHARE * self.seconds, RATE_S))
        except DoesNotFit as error:
            self.done.append(BatchSizeTrial(size, False, note=str(error)))
            self.trials.renew()
        else:
            self.done.append(BatchSizeTrial(size, True, peak, rate))
            self._passing_s = time.perf_counter() - began
        return True

    def _is_slow(self, size: int) -> bool:
        actual = {s: rules.with_input(rate, self.input_rate) for s, rate in self.rates.items()}
        return size in actual and TOO_SLOW * actual[size] < max(actual.values())

    def _is_time(self, share: float, needed_s: float) -> bool:
        """Whether a trial that takes so long would end within a share of the time."""
        passed_s = time.perf_counter() - self._began
        return passed_s + needed_s <= share * self.seconds


def _example_bytes(peaks: Sequence[Point]) -> float:
    """Returns the bytes of an example, from the peaks of two batch sizes; 0 if unknown."""
    if not peaks:
        return 0.0
    (size, low), (larger, high) = peaks
    return max((high - low) / (larger - size), 0.0)


def _filling(peaks: Sequence[Point], allowed_bytes: float) -> int | None:
    """Returns the batch size whose peak is on the line through those of two; None if unknown."""
    example_bytes = _example_bytes(peaks)
    if not example_bytes:
        return None
    size, peak_bytes = peaks[-1]
    return max(1, int(size + (allowed_bytes - peak_bytes) / example_bytes))
