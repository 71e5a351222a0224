"""The input wait where batches are buffered on devices, on logical CPUs and with given times."""

import json
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf
from helpers import prepared
from helpers.training import fast_dataset, input_of

from keras_gpukit.input.wait import batch_arrival, meter_choice, pipeline_model
from keras_gpukit.input.wait.batch_arrival import BatchArrivalMeter, with_batch_times
from keras_gpukit.input.wait.meters import CallWindow

CASES = Path(__file__).parent / "cases"
SHORT = 100
"""The most characters of a reason."""


def test_fits_whose_batches_are_buffered_on_devices(tmp_path):
    printed = prepared.run(CASES / "device_buffers.py", tmp_path, timeout=300).stdout
    found = json.loads(printed.splitlines()[-1])
    one, mirrored, several = (found[name] for name in ("one", "mirrored", "several"))
    assert (one["mechanism"], one["confidence"]) == ("batch arrival", "sampled")
    assert 0 <= one["stall"] <= 1
    assert one["start_s"] >= 0
    # Left out are the first step of the run, and the first and last of each epoch.
    assert found["endless"]["steps"] >= 3 * 4
    assert mirrored["confidence"] == "sampled"
    assert 0 <= mirrored["stall"] <= 1
    # Whether Monitor's panel shows it next to worse findings depends on how busy the machine is.
    assert 0 <= found["monitored"] <= 1
    assert "stall unknown" not in printed
    assert several["stall"] is None
    assert len(several["because"]) <= SHORT
    assert found["bit identical"]


def test_elements_and_batches_ahead_stay_the_same():
    drawn = []

    def draw(element):
        drawn.append(int(element))
        return np.int64(element)

    def taken(change):
        drawn.clear()
        data = tf.data.Dataset.range(20).map(
            lambda element: tf.ensure_shape(tf.numpy_function(draw, [element], tf.int64), [])
        )
        data = data.prefetch(3)
        iterator = iter(change(data))
        first = [int(next(iterator)) for _ in range(2)]
        while len(drawn) < 5:
            time.sleep(0.01)
        time.sleep(0.1)
        return first, len(drawn), int(change(data).cardinality()), [int(each) for each in iterator]

    assert taken(lambda data: with_batch_times(data, 1)[0]) == taken(lambda data: data)


def test_times_are_those_of_the_newest_iterator(monkeypatch):
    monkeypatch.setattr(batch_arrival, "BATCHES_KEPT", 4)
    data, feed = with_batch_times(tf.data.Dataset.range(6), 1)
    assert len([*data]) == 6
    began_s = time.time()
    iterator = iter(data)
    for _ in range(3):
        next(iterator)
    known_s = feed.times_s(feed.take(), np.arange(5))
    assert np.all(known_s[:3] >= began_s - 0.01)
    assert np.all(np.diff(known_s[:3]) >= 0)
    assert np.all(np.isnan(known_s[3:]))  # not those of the last iterator


UNIX_S = 1000.0
"""Time of day when the clock of steps is zero."""


class GivenFeed:
    """Stands in for the times of a pipeline's batches."""

    def __init__(self, handed_out_s, devices):
        self.devices = devices
        self._times_s = np.asarray(handed_out_s) + UNIX_S

    def take(self):
        return None

    def times_s(self, taken, batches):
        inside = batches < len(self._times_s)
        return np.where(inside, self._times_s[batches * inside], np.nan)


def waits(handed_out_s, entries_s, *, devices=1, **options):
    """Returns the reading of all calls but the first and last; exits are late."""
    calls = [0]
    feed = GivenFeed(handed_out_s, devices)
    meter = BatchArrivalMeter(feed, lambda: calls[0], **{"steps_per_execution": 1, **options})
    entries_s = np.array(entries_s)
    clocks = SimpleNamespace(perf_counter=lambda: 100.0, time=lambda: 100.0 + UNIX_S)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(batch_arrival, "time", clocks)
        meter.start(None, CallWindow(entries_s[:2], entries_s[1:2], entries_s[2]))
        calls[0] = len(entries_s)
        window = CallWindow(entries_s[1:], entries_s[2:], entries_s[-1] + 1)
        return meter.wait_of([meter.take()], window)


def test_a_step_waits_until_its_last_batch_is_handed_out():
    entries_s = np.r_[0, 4.0 + 3 * np.arange(5)]
    handed_out_s = entries_s + np.array([2, 2, -1, 0.5, 2, 2])
    assert waits(handed_out_s, entries_s).waits_s.tolist() == [2, 0, 0.5, 2]
    # With two devices, for the last of two batches.
    reading = waits(1.0 + np.arange(14), np.r_[0, 3.0 + 2 * np.arange(5)], devices=2)
    assert reading.waits_s.tolist() == [1] * 4


@pytest.mark.parametrize(
    ("batches", "options"), [(3, {}), (20, {"steps_per_execution": 2})], ids=["missing", "several"]
)
def test_what_is_unknown_has_a_short_reason(batches, options):
    reading = waits(np.arange(float(batches)) + 0.5, np.arange(6.0), **options)
    assert reading.wait_s is None
    assert 0 < len(reading.unknown_because) <= SHORT


def test_a_model_that_cannot_be_read_is_read_once(monkeypatch):
    tries = []

    def unreadable(iterator):
        tries.append(iterator)
        raise tf.errors.InvalidArgumentError(None, None, "Cannot assign a device\n" * 30)

    monkeypatch.setattr(pipeline_model, "check_model", unreadable)
    record = input_of(fast_dataset(8), epochs=4)
    assert (len(tries), record.unknown_because) == (1, meter_choice.NOT_READ)
