"""How the input wait of each kind of input is measured, and the windows of scripted steps.

How exact it is, `test_pipeline_model.py` shows on scripted pipelines, and `realtime` on real ones.
"""

from __future__ import annotations

import itertools
import sys
import time

import keras
import pytest
import tensorflow as tf
from helpers.clocked_steps import clocked_steps
from helpers.training import (
    BATCH,
    SlowPyDataset,
    arrays,
    fast_dataset,
    slow_generator,
    small_model,
    without_autotuning,
)

import keras_gpukit as gpukit
from keras_gpukit.input.wait.clock import OwnCost
from keras_gpukit.input.wait.examples import ExampleCounter
from keras_gpukit.input.wait.meters import WaitReading

BATCHES = 40


def stall(data, model=None, **fit_options):
    callback = gpukit.InputStall(None)
    model = model or small_model()
    model.fit(data, verbose=0, callbacks=[callback], **fit_options)
    return callback.summary


@pytest.mark.parametrize("options", [{"jit_compile": True}, {"run_eagerly": True}])
@pytest.mark.parametrize("steps", [1, 4])
def test_jit_and_eager_steps(options, steps):
    record = stall(fast_dataset(BATCHES), small_model(steps_per_execution=steps, **options))
    hides = steps > 1 and "jit_compile" in options
    assert record.mechanism == "pipeline model"
    assert record.confidence == ("sampled" if hides else "exact")
    assert record.measured_steps == BATCHES - 2 * steps


def asking_to_be_tuned(data):
    return data.map(lambda *batch: batch, num_parallel_calls=tf.data.AUTOTUNE)


def shuffled(data):
    return data.shuffle(4)


def untuned(change, batches=BATCHES):
    return without_autotuning(change(fast_dataset(batches)))


INPUTS = {
    "dataset": (lambda: fast_dataset(BATCHES), 1, "pipeline model", "exact"),
    "PyDataset": (lambda: SlowPyDataset(BATCHES, 0.0), 1, "pipeline model", "exact"),
    "PyDataset, two workers": (
        lambda: SlowPyDataset(BATCHES, 0.0, workers=2), 1, "fetch latency", "exact"
    ),
    "generator": (lambda: slow_generator(BATCHES, 0.0), 1, "pipeline model", "exact"),
    "autotuning is off": (lambda: untuned(shuffled), 1, "fetch latency", "exact"),
    "a stage asks to be tuned": (lambda: untuned(asking_to_be_tuned), 1, "fetch latency", "exact"),
    "executions": (lambda: fast_dataset(64), 8, "pipeline model", "sampled"),
    "executions of two": (lambda: fast_dataset(24), 2, "pipeline model", "upper bound"),
    "executions, autotuning is off": (
        lambda: untuned(shuffled, 64), 8, "pipeline model", "sampled"
    ),
    "executions, a stage asks to be tuned": (
        lambda: untuned(asking_to_be_tuned, 64), 8, "fetch latency", "upper bound"
    ),
}  # fmt: skip


@pytest.mark.parametrize(("data", "steps", "mechanism", "confidence"), INPUTS.values(), ids=INPUTS)
def test_each_input_has_its_way_to_be_measured(data, steps, mechanism, confidence):
    record = stall(data(), small_model(steps_per_execution=steps))
    assert (record.mechanism, record.confidence) == (mechanism, confidence)
    assert 0 <= record.stall_fraction <= 1


def nested_buffer(_):
    return fast_dataset(4).unbatch().prefetch(50)


@pytest.mark.parametrize(
    ("data", "has_one"),
    [
        (lambda: fast_dataset(40).prefetch(2), True),
        (lambda: fast_dataset(40).prefetch(2).map(lambda x, y: (x + 1, y)), True),
        (lambda: fast_dataset(40), False),
        (lambda: fast_dataset(40).unbatch().prefetch(50).batch(8), False),
        (lambda: tf.data.Dataset.range(10).interleave(nested_buffer).batch(8), False),
    ],
)
def test_only_a_buffer_of_batches_counts_as_the_last_buffer(data, has_one):
    options = tf.data.Options()
    options.experimental_optimization.inject_prefetch = False
    buffered = stall(data().with_options(options)).buffered_batches
    assert buffered is not None if has_one else buffered is None


def test_a_pipeline_that_is_out_of_reach_is_unknown_and_says_why(monkeypatch):
    monkeypatch.setattr("keras_gpukit.watching.phase_steps.epoch_iterator", lambda _: None)
    record = stall(without_autotuning(fast_dataset(4)))
    assert record.stall_fraction is None
    assert "autotuning is off" in record.unknown_because


def test_epochs_over_one_endless_pipeline_go_on_being_measured():
    record = stall(fast_dataset(BATCHES).repeat(3), epochs=4, steps_per_epoch=20)
    assert record.measured_steps > 60
    assert record.pipeline_start is None


def test_an_endless_python_pipeline_without_autotuning_is_not_begun_anew():
    # Made rebuilt in the second epoch, it would give its first elements again.
    seen = []

    class Counts(SlowPyDataset):
        def __getitem__(self, index):
            seen.append(index)
            return super().__getitem__(index)

    callback = gpukit.InputStall(None)
    data = Counts(12, 0.0, workers=2)
    small_model().fit(data, epochs=3, steps_per_epoch=4, verbose=0, callbacks=[callback])
    watched, seen = seen, []
    small_model().fit(Counts(12, 0.0, workers=2), epochs=3, steps_per_epoch=4, verbose=0)
    assert set(watched) == set(seen)
    assert callback.summary.mechanism == "fetch latency"


@pytest.mark.parametrize("phase", ["evaluate", "predict"])
def test_evaluate_and_predict_are_measured(phase):
    callback = gpukit.InputStall(None)
    getattr(small_model(), phase)(fast_dataset(BATCHES), verbose=0, callbacks=[callback])
    assert callback.summary.phase == phase
    assert callback.summary.measured_steps == BATCHES - 2
    assert 0 <= callback.summary.stall_fraction <= 1


def test_validation_is_told_apart():
    callback, throughput = gpukit.InputStall(None), gpukit.Throughput(None)
    data, callbacks = fast_dataset(BATCHES), [callback, throughput]
    options = {"epochs": 2, "validation_data": fast_dataset(10), "verbose": 0}
    small_model().fit(data, callbacks=callbacks, **options)
    assert callback.summary.measured_steps == 2 * (BATCHES - 2)
    assert callback.validation.measured_steps == 2 * (10 - 2)
    assert (throughput.summary.steps, throughput.validation.steps) == (2 * BATCHES, 2 * 10)


def test_throughput_counts_every_example_and_step():
    inputs, targets = arrays(10)
    # 155 examples: nine batches of 16 and one of 11, in three executions, the last one shorter.
    for epochs in (1, 3):
        callback = gpukit.Throughput(None)
        options = {"batch_size": BATCH, "epochs": epochs, "verbose": 0}
        model = small_model(steps_per_execution=4)
        model.fit(inputs[:155], targets[:155], callbacks=[callback], **options)
        assert callback.summary.steps == epochs * 10
    whole = gpukit.Throughput(None)
    small_model().fit(fast_dataset(30), verbose=0, callbacks=[whole])
    rate = whole.summary.examples_per_s
    assert rate == pytest.approx(BATCH / whole.summary.step_time_s)


class FakeMeter:
    """Waits a quarter of each stretch."""

    mechanism = "fake"
    confidence = "exact"
    reads_early = True

    def waited_s(self):
        return None

    def take(self):
        return None

    def start(self, taken, first):
        return None

    def read(self, taken, stretch):
        waits_s = stretch.durations_s / 4
        return WaitReading(float(waits_s.sum()), waits_s, 1.0)


class Pipeline:
    """Stands in for an iterator; what matters is only which one it is."""


def fake_clock(windows, *, first_step=0, **options):
    """Returns a clock whose meter is a fake one, and which adds its windows to a list."""
    return clocked_steps(
        lambda source: FakeMeter(), windows.append, first_step=first_step, **options
    ).clock


def clocked(durations, *, pause_after=(), raises_at=None):
    """Drives a clock by steps of given durations; gives the windows and the clock."""
    time_s = itertools.accumulate(durations, initial=0.0)
    windows = []
    entries = iter(time_s)
    now_s = 0.0

    def now():
        return now_s

    steps = clocked_steps(lambda source: FakeMeter(), windows.append, first_step=100, now=now)
    clock = steps.clock
    step = clock.wrap(lambda source: "logs")
    pipeline = Pipeline()
    for call in range(len(durations)):
        now_s = next(entries)
        assert step(pipeline) == "logs"
        if call in pause_after:
            clock.pause()
            pipeline = Pipeline()
    clock.pause()
    clock.end()
    return windows, steps.calls


def test_windows_leave_out_the_first_step_of_a_pipeline_and_the_last():
    # The first takes 9 s, for tracing; the last has no next step to end it.
    windows, calls = clocked([9.0, *[0.01] * 10, 7.0])
    assert sum(window.steps for window in windows) == 10
    assert sum(window.duration_s for window in windows) == pytest.approx(0.1)
    assert sum(window.input_wait_s for window in windows) == pytest.approx(0.025)
    assert calls.steps == 12
    assert calls.step == 112


@pytest.mark.parametrize("calls", [96, 97, 98, 99, 100])
def test_no_step_is_lost_where_the_last_one_ends_a_reading(calls):
    windows, _ = clocked([0.001] * calls)
    assert sum(window.steps for window in windows) == calls - 2
    assert sum(window.duration_s for window in windows) == pytest.approx((calls - 2) * 0.001)


def test_the_time_between_epochs_is_no_steps_time():
    windows, _ = clocked([1.0, 0.1, 0.1, 60.0, 1.0, 0.1, 0.1, 0.1], pause_after=(3,))
    assert sum(window.duration_s for window in windows) == pytest.approx(0.4)


def test_a_long_run_is_told_about_once_a_second():
    windows, _ = clocked([0.001] * 10_000)
    assert len(windows) == pytest.approx(10, abs=1)
    assert sum(window.input_wait_s for window in windows) == pytest.approx(9.998 / 4)
    windows, _ = clocked([0.5] * 20)
    assert max(window.duration_s for window in windows) <= 1.5


def test_a_step_function_that_raises_is_no_step():
    steps = clocked_steps(lambda source: "", print)

    def ends(source):
        raise StopIteration

    with pytest.raises(StopIteration):
        steps.clock.wrap(ends)(Pipeline())
    assert steps.calls.steps == 0
    steps.clock.pause()


def test_a_first_step_that_failed_may_be_tried_again():
    windows = []
    steps = clocked_steps(lambda source: FakeMeter(), windows.append)
    fails = iter([True])

    def step_function(source):
        if next(fails, False):
            raise RuntimeError("out of memory")

    step, pipeline = steps.clock.wrap(step_function), Pipeline()
    with pytest.raises(RuntimeError):
        step(pipeline)
    for _ in range(12):
        step(pipeline)
    steps.clock.pause()
    steps.clock.end()
    assert steps.calls.steps == 12
    assert sum(window.steps for window in windows) == 10


def test_a_meter_that_fails_is_given_up_and_the_step_goes_on(caplog):
    class Breaks(FakeMeter):
        def start(self, taken, first):
            raise RuntimeError("no model any more")

    steps = clocked_steps(lambda source: Breaks(), print)
    step, epochs = steps.clock.wrap(lambda source: 1), [Pipeline() for _ in range(3)]
    assert [step(pipeline) for pipeline in epochs for _ in range(200)] == [1] * 600
    assert len(caplog.records) == 1
    assert "no model any more" in steps.windows.input().unknown_because


def test_errors_are_reported_after_timing_was_given_up():
    errors = []
    clock = fake_clock([], on_error=errors.append)
    clock.stop("it was replaced")

    def fails(source):
        raise RuntimeError("out of memory")

    with pytest.raises(RuntimeError):
        clock.wrap(fails)(Pipeline())
    assert [str(error) for error in errors] == ["out of memory"]


def test_readings_switch_threads_promptly_and_their_waits_are_no_overhead(monkeypatch):
    usual_s, seen_s, spent_s = sys.getswitchinterval(), [], [0.0]
    # Other code's time, as while this waits for the GIL, is not on a thread's own clock.
    monkeypatch.setattr(time, "thread_time", lambda: spent_s[0])

    def works(window):
        seen_s.append(sys.getswitchinterval())
        spent_s[0] += 0.25
        raise RuntimeError("a listener fails")

    cost = OwnCost()
    clock = clocked_steps(lambda source: FakeMeter(), works, cost=cost).clock
    step, pipeline = clock.wrap(lambda source: None), Pipeline()
    for _ in range(12):
        step(pipeline)
    clock.pause()
    clock.end()
    assert seen_s
    assert max(seen_s) < usual_s == sys.getswitchinterval()
    assert cost.once_s + cost.recurring_s == 0.25 * len(seen_s)


def test_a_window_ends_when_its_last_call_returned_and_not_when_callbacks_let_go(monkeypatch):
    windows, now_s = [], 0.0
    monkeypatch.setattr(time, "time", lambda: 1000.0 + now_s)
    clock = fake_clock(windows, now=lambda: now_s)
    step, pipeline = clock.wrap(lambda source: None), Pipeline()
    for _ in range(12):
        now_s += 0.01
        step(pipeline)
    ended_s = time.time()
    now_s += 20.0  # a checkpoint, by a callback listed before
    clock.pause()
    clock.end()
    assert windows[-1].time_s == pytest.approx(ended_s)


def test_a_counter_of_examples_that_stays_at_zero_is_unknown():
    model = small_model()
    model.make_train_function()
    counter = ExampleCounter(model)
    before = counter.take()
    model.fit(fast_dataset(2), verbose=0, callbacks=[keras.callbacks.Callback()])
    assert counter.between(before, counter.take(), calls=2) == 2 * BATCH
    # A worker that has run out of data takes part in steps with no examples.
    assert counter.between(counter.take(), counter.take(), calls=1) == 0
    assert counter.between(before, before, calls=1) is None  # as of a step that does not count
