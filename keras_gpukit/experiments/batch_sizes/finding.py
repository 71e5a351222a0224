"""The search: first the largest batch size that fits, then how fast it and smaller ones are."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from itertools import count

from keras_gpukit.experiments.batch_sizes.bisection import Bisection
from keras_gpukit.experiments.batch_sizes.estimate import Estimate
from keras_gpukit.experiments.batch_sizes.trainer import DoesNotFit, Survey
from keras_gpukit.experiments.batch_sizes.trials import Trials
from keras_gpukit.records.batch_size import BatchSizeEnding, BatchSizeTrial
from keras_gpukit.rules import batch_size as rules

# Executions in a trial: most that do not fit fail in the first, but not all. The last trials are as
# a fit is: two epochs, each with a smaller batch at its end.
STEPS = 5
LAST_STEPS, LAST_EPOCHS, CONFIRMATIONS = 5, 2, 2
# Small trials, which fit in any case, show what an example takes. The first is with this share of
# the predicted batch size, or with so many examples; they end with this share of the expected one.
FIRST_SHARE, FIRST = 1 / 8, 16
SMALL_SHARE = 1 / 3
# Shares of the time: after the first a narrow bracket is not narrowed further, after the second no
# rate is measured.
SEARCH_SHARE, RATES_SHARE = 0.5, 0.9
RATE_SHARE, RATE_S = 1 / 60, 1.5
# Batch sizes so much slower than the best are not halved further.
TOO_SLOW = 1.5
# As many doublings without a gain end the search for the fastest where nothing limits the size.
NO_GAIN = 2
# Of the free memory of the host, where nothing else limits the size.
HOST_SHARE = 0.5


class Finding:
    """One search.

    Args:
        trials: Where to try.
        most: The largest batch size to try.
        seconds: For everything.
        input_rate: Examples per second of the input; None where it was not measured.
        tell: Called with what is tried next.

    Attributes:
        done: The trials so far.
        ending: Why the search ended.
        largest: The largest batch size that fits with a margin.
        predicted: The largest that was predicted to fit.
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
        self._began = time.perf_counter()
        self._seconds = seconds
        self._input_rate = input_rate
        self._tell = tell

    @property
    def rates(self) -> dict[int, float]:
        """Examples per second from memory, by batch size."""
        return {each.batch_size: each.rate.median for each in self.done if each.rate is not None}

    def survey(self) -> Survey | None:
        """Looks at the model; None if not even one example fits."""
        self._tell("one example")
        try:
            return self._trials.survey()
        except DoesNotFit as error:
            self.done.append(BatchSizeTrial(1, False, note=str(error)))
            self.ending = "not even one example fits"
            return None

    def find_largest(self, survey: Survey) -> None:
        """Finds the largest batch size that fits, and confirms it by a longer trial.

        Args:
            survey: Of the model.
        """
        estimate = Estimate(survey)
        self.predicted = estimate.largest(1.0)
        bisection = Bisection(rules.without_margin(self._most))
        self._try_small(bisection, estimate)
        while (size := bisection.next) is not None:
            if self._is_over(SEARCH_SHARE if bisection.is_narrow else 1.0):
                break
            self._trials.renew(again=True)
            self._note(bisection, estimate, size, f"batches of {size:,}", STEPS)
        candidate = min(rules.with_margin(max(bisection.passed, 1)), self._most)
        while not self._is_confirmed(candidate):
            if candidate == 1:
                self.ending = "not even one example fits"
                return
            candidate = rules.with_margin(candidate)
        self.largest = candidate

    def measure_below(self, largest: int) -> None:
        """Measures how fast the largest batch size is, and powers of two below it.

        Args:
            largest: One that fits.
        """
        for size in _halves(largest):
            if not self._rate(size):
                return
            if size in self.rates and self._is_slow(size):
                return

    def measure_from_one(self, survey: Survey, free_bytes: int | None) -> None:
        """Measures how fast powers of two are, as long as a larger one brings something.

        Args:
            survey: Of the model.
            free_bytes: Of the host's memory; None where that is unknown.
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

    def _is_confirmed(self, size: int) -> bool:
        """Tries a batch size for longer, several times: memory is never divided the same way."""
        for number in range(1, CONFIRMATIONS + 1):
            self._trials.renew(again=number < CONFIRMATIONS)
            what = f"batches of {size:,}, for longer ({number} of {CONFIRMATIONS})"
            self._train(size, what, LAST_STEPS, LAST_EPOCHS, partial=True)
            if not self.done[-1].fits:
                return False
        return True

    def _try_small(self, bisection: Bisection, estimate: Estimate) -> None:
        """Corrects the prediction by trials that are expected to fit."""
        size = int(FIRST_SHARE * self.predicted) if self.predicted else FIRST
        while True:
            size = max(1, min(size, self._most))
            self._note(bisection, estimate, size, f"batches of {size:,}", 1)
            if not self.done[-1].fits:
                self._trials.renew(again=True)
                if size == 1 or bisection.passed:
                    return
                size //= 4
                continue
            expected = min(estimate.largest() or 4 * self._most, self._most)
            if size >= SMALL_SHARE * expected / 2 or bisection.failed is not None:
                return
            size = min(4 * size, int(SMALL_SHARE * expected) + 1)

    def _note(
        self, bisection: Bisection, estimate: Estimate, size: int, what: str, steps: int
    ) -> None:
        peak = self._train(size, what, steps)
        estimate.note(size, peak)
        expected = estimate.largest()
        if expected is not None and expected <= size * (1 + rules.RESOLUTION):
            # Near the limit: the smallest that should not fit in any case.
            filling = estimate.largest(1.0)
            expected = None if filling is None else int(filling * (1 + rules.RESOLUTION)) + 1
        bisection.note(size, self.done[-1].fits, expected)

    def _train(
        self, size: int, what: str, steps: int, epochs: int = 1, partial: bool = False
    ) -> int | None:
        self._tell(what)
        try:
            peak = self._trials.train(size, steps=steps, epochs=epochs, partial=partial)
        except DoesNotFit as error:
            self.done.append(BatchSizeTrial(size, False, note=str(error)))
            return None
        self.done.append(BatchSizeTrial(size, True, peak))
        return peak

    def _rate(self, size: int) -> bool:
        """Measures a rate, if it fits; returns whether there was the time."""
        if self.rates and self._is_over(RATES_SHARE):
            return False
        self._tell(f"speed with batches of {size:,}")
        try:
            rate, peak = self._trials.rate(size, min(RATE_SHARE * self._seconds, RATE_S))
        except DoesNotFit as error:
            self.done.append(BatchSizeTrial(size, False, note=str(error)))
            self._trials.renew()
        else:
            self.done.append(BatchSizeTrial(size, True, peak, rate))
        return True

    def _is_slow(self, size: int) -> bool:
        actual = [rules.with_input(each, self._input_rate) for each in self.rates.values()]
        return TOO_SLOW * rules.with_input(self.rates[size], self._input_rate) < max(actual)

    def _is_over(self, share: float) -> bool:
        over = time.perf_counter() - self._began > share * self._seconds
        if over:
            self.ending = "time ran out"
        return over


def _halves(largest: int) -> Iterator[int]:
    """The largest, then each power of two below it."""
    yield largest
    size = 2 ** ((largest - 1).bit_length() - 1) if largest > 1 else 0
    while size:
        yield size
        size //= 2
