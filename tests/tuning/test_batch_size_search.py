"""The search for batch sizes, on devices that are made up."""

import time

import pytest

from keras_gpukit.records import Rate
from keras_gpukit.tuning.size_search import SizeSearch
from keras_gpukit.tuning.trainer import LAST_EPOCHS, STEPS, DoesNotFit, Survey

MIB = 2**20


class MadeUp:
    """Takes as many bytes per example as it is made for, and trains at a rate with a knee."""

    def __init__(self, limit_mib=None, *, predicted_mib=1.0, knee=64, **more):
        self.limit = None if limit_mib is None else limit_mib * MIB
        self.example, self.base, self.predicted = MIB, 20 * MIB, predicted_mib * MIB
        self.knee = knee
        self.fails_when_long = more.get("fails_when_long", lambda size: False)
        # Seconds that a trial takes to start, an example to train, and a failure to show.
        times = (more.get(name, 0.0) for name in ("start_s", "example_s", "failure_s"))
        self.start_s, self.example_s, self.failure_s = times
        self.now, self.fresh, self.renewed = 0.0, True, 0

    def survey(self):
        known = self.limit is not None
        predicted = int((self.limit - self.base) / self.predicted) if known else None
        self._peak(1)
        self._takes(1, 1)
        return Survey("graph", self.limit, predicted)

    def _peak(self, size, withheld_bytes=0):
        peak = int(self.base + size * self.example)
        if self.limit is not None and peak > self.limit - withheld_bytes:
            self.now += self.start_s + self.failure_s
            raise DoesNotFit("OOM when allocating")
        return peak

    def _takes(self, size, executions):
        self.now += self.fresh * self.start_s + executions * size * self.example_s
        self.fresh = False

    def train(self, batch_size, last=0.0, withheld_bytes=0):
        peak = self._peak(batch_size, withheld_bytes)
        self._takes(batch_size, (LAST_EPOCHS if last else 1) * (STEPS + last))
        if last and self.fails_when_long(batch_size):
            raise DoesNotFit("later")
        return peak

    def rate(self, batch_size, seconds):
        peak = int(self.base + batch_size * self.example)
        self._takes(batch_size, 5 if self.example_s else 0)
        of_its_size = 1000.0 * min(batch_size, self.knee) + batch_size
        rate = 1 / self.example_s if self.example_s else of_its_size
        return Rate(rate, rate, rate, "examples/s"), peak

    def renew(self):
        self.fresh, self.renewed = True, self.renewed + 1


def find(trials, *, most=2**16, seconds=1e6, input_rate=None):
    options = {"most": most, "seconds": seconds, "input_rate": input_rate}
    search = SizeSearch(trials, show_progress=lambda what: None, **options)
    search.run()
    return search


@pytest.mark.parametrize("predicted", [0.3, 0.8, 1.0, 1.2, 3.0])
@pytest.mark.parametrize("truth", [7, 40, 333, 5000])
def test_the_largest_is_within_five_percent_in_few_trials(truth, predicted):
    trials = MadeUp(20 + truth + 0.5, predicted_mib=predicted)
    found = find(trials)
    assert min(0.95 * truth, truth - 2) <= found.largest < truth
    assert trials.renewed <= (10 if predicted == 1 else 14)


def test_without_a_prediction_the_bracket_is_found_by_trials():
    trials = MadeUp(20 + 333.5)
    trials.survey = lambda: Survey("graph", trials.limit)
    assert 0.95 * 333 <= find(trials).largest < 333
    # Everything may fit up to the most, or not even one example.
    found = find(MadeUp(20 + 333.5), most=100)
    assert found.largest == 100
    assert all(each.fits for each in found.done)
    found = find(MadeUp(10))
    assert found.largest is None
    assert found.ending == "not even one example fits"
    assert [each.fits for each in found.done] == [False]


def test_what_fails_in_the_longer_trial_is_not_recommended():
    found = find(MadeUp(20 + 333.5, fails_when_long=lambda size: size > 300))
    assert 280 <= found.largest <= 300
    # Each recommended size is confirmed in several processes.
    fails = iter([False, True])  # the second time
    found = find(MadeUp(20 + 333.5, fails_when_long=lambda size: next(fails, False)))
    assert [each.fits for each in found.done if each.note.startswith("later")] == [False]
    last = [each for each in found.done if each.batch_size == found.largest and not each.rate]
    assert [each.fits for each in last] == 4 * [True]


def test_a_size_that_passes_only_by_a_little_luck_is_not_recommended():
    trials, truth = MadeUp(20 + 333.5), 333
    train = trials.train

    def with_luck(size, last=0.0, withheld_bytes=0):
        # At worst an example takes 1 MiB.
        trials.example = (0.99 if last else 0.96) * MIB
        return train(size, last, withheld_bytes)

    trials.train = with_luck
    found = find(trials)
    assert 0.95 * truth < found.largest <= truth


def test_rates_are_measured_from_the_largest_down_past_the_knee_and_memory_is_renewed():
    trials = MadeUp(20 + 333.5, knee=64)
    found = find(trials)
    assert sorted(found.rates) == [32, 64, 128, 256, found.largest]
    # Before each size that may run out of memory.
    large = [each for each in found.done if each.rate is None and each.batch_size > 150]
    assert trials.renewed == len(large)
    # Without a limit, larger ones are tried as long as they bring something.
    found = find(MadeUp(knee=64))
    assert found.largest is None
    assert max(found.rates) == 256  # two more without a gain
    # At the rate of the input nothing larger is faster.
    assert max(find(MadeUp(knee=64), input_rate=10_000.0).rates) == 64


def test_no_trial_of_memory_is_made_when_time_is_over_but_the_last():
    found = find(MadeUp(20 + 333.5), seconds=1e-9)
    assert found.ending == "time ran out"
    assert found.largest >= 1
    assert len(found.done) <= 5


@pytest.mark.parametrize(("start_s", "step_s"), [(0.5, 0.1), (4.0, 0.5), (10.0, 0.5), (4.0, 3.0)])
@pytest.mark.parametrize("predicted", [0.5, 0.9, 1.1])
def test_the_search_ends_near_its_time(monkeypatch, predicted, start_s, step_s):
    times = {"start_s": start_s, "example_s": step_s / 333, "failure_s": 10.0}
    trials = MadeUp(20 + 333.5, predicted_mib=predicted, **times)
    monkeypatch.setattr(time, "perf_counter", lambda: trials.now)
    found = find(trials, seconds=90)
    assert trials.now < 120  # a rate is measured in any case
    assert found.largest > (0.9 if start_s < 4 else 0.7 if step_s < 1 else 0.2) * 333
    assert found.rates
