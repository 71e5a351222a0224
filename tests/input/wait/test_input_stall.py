"""How the input wait of each kind of input is measured, and the windows of scripted steps.

How exact it is, `test_pipeline_model.py` shows on scripted pipelines, and `realtime` on real ones.
"""

import itertools
import sys
import time
from typing import ClassVar

import keras
import pytest
import tensorflow as tf
from helpers.clocked_steps import Meter, Pipeline, clocked_steps
from helpers.training import (
    BATCH,
    SlowPyDataset,
    fast_dataset,
    input_of,
    slow_generator,
    small_model,
    summary_of,
    without_autotuning,
)

import keras_gpukit as gpukit
from keras_gpukit.input.wait.calls import ExampleCounter
from keras_gpukit.input.wait.clock import OwnCost
from keras_gpukit.input.wait.meters import WaitReading

BATCHES = 40


def asking_to_be_tuned(data):
    return data.map(lambda *batch: batch, num_parallel_calls=tf.data.AUTOTUNE)


def shuffled(data):
    return data.shuffle(4)


def untuned(change, batches=BATCHES):
    return without_autotuning(change(fast_dataset(batches)))


INPUTS = {  # options of the model, how it is measured, and how exactly
    "dataset": (lambda: fast_dataset(BATCHES), {}, "pipeline model", "exact"),
    "PyDataset": (lambda: SlowPyDataset(BATCHES, 0.0), {}, "pipeline model", "exact"),
    "PyDataset, two workers": (
        lambda: SlowPyDataset(BATCHES, 0.0, workers=2), {}, "fetch latency", "exact"
    ),
    "generator": (lambda: slow_generator(BATCHES, 0.0), {}, "pipeline model", "exact"),
    "autotuning is off": (lambda: untuned(shuffled), {}, "fetch latency", "exact"),
    "a stage asks to be tuned": (lambda: untuned(asking_to_be_tuned), {}, "fetch latency", "exact"),
    "jit": (lambda: fast_dataset(BATCHES), {"jit_compile": True}, "pipeline model", "exact"),
    "eager": (lambda: fast_dataset(BATCHES), {"run_eagerly": True}, "pipeline model", "exact"),
    "executions": (
        lambda: fast_dataset(64), {"steps_per_execution": 8}, "pipeline model", "sampled"
    ),
    "jit executions": (
        lambda: fast_dataset(BATCHES), {"steps_per_execution": 4, "jit_compile": True},
        "pipeline model", "sampled"
    ),
    "eager executions": (
        lambda: fast_dataset(BATCHES), {"steps_per_execution": 4, "run_eagerly": True},
        "pipeline model", "exact"
    ),
    "executions of two": (
        lambda: fast_dataset(24), {"steps_per_execution": 2}, "pipeline model", "upper bound"
    ),
    "executions, autotuning is off": (
        lambda: untuned(shuffled, 64), {"steps_per_execution": 8}, "pipeline model", "sampled"
    ),
    "executions, a stage asks to be tuned": (
        lambda: untuned(asking_to_be_tuned, 64), {"steps_per_execution": 8},
        "fetch latency", "upper bound"
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", INPUTS)
def test_each_input_has_its_way_to_be_measured(case):
    data, options, mechanism, confidence = INPUTS[case]
    record = input_of(data(), small_model(**options))
    assert (record.mechanism, record.confidence) == (mechanism, confidence)
    assert 0 <= record.stall_fraction <= 1
    if {"jit_compile", "run_eagerly"} & options.keys():
        assert record.measured_steps == BATCHES - 2 * options.get("steps_per_execution", 1)


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
    buffered = input_of(data().with_options(options)).buffered_batches
    assert buffered is not None if has_one else buffered is None


def test_a_pipeline_that_is_out_of_reach_is_unknown_and_says_why(monkeypatch):
    monkeypatch.setattr("keras_gpukit.monitoring.phase_steps.epoch_iterator", lambda _: None)
    record = input_of(without_autotuning(fast_dataset(4)))
    assert record.stall_fraction is None
    assert "autotuning is off" in record.unknown_because


def test_epochs_over_one_endless_pipeline_go_on_being_measured():
    record = input_of(fast_dataset(BATCHES).repeat(3), epochs=4, steps_per_epoch=20)
    assert record.measured_steps > 60
    assert record.pipeline_start is None


def test_an_endless_python_pipeline_without_autotuning_is_not_begun_anew():
    # Made rebuilt in the second epoch, it would give its first elements again.
    class Counts(SlowPyDataset):
        seen: ClassVar[list[int]] = []

        def __getitem__(self, index):
            self.seen.append(index)
            return super().__getitem__(index)

    options = {"epochs": 3, "steps_per_epoch": 4}
    record = input_of(Counts(12, 0.0, workers=2), **options)
    watched, Counts.seen = Counts.seen, []
    small_model().fit(Counts(12, 0.0, workers=2), **options, verbose=0)
    assert set(watched) == set(Counts.seen)
    assert record.mechanism == "fetch latency"


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


def test_throughput_counts_every_example():
    summary = summary_of(small_model(), fast_dataset(30), callback=gpukit.Throughput(None))
    assert summary.examples_per_s == pytest.approx(BATCH / summary.step_time_s)


class FakeMeter(Meter):
    """Waits a quarter of each window."""

    def wait_of(self, taken, window):
        waits_s = window.durations_s / 4
        return WaitReading(float(waits_s.sum()), waits_s, 1.0)


def fake_steps(on_window=print, **options):
    return clocked_steps(lambda source: FakeMeter(), on_window, **options)


def clocked(durations):
    """Drives a clock by steps of given durations; gives the windows and the calls."""
    entries, windows, now_s = itertools.accumulate(durations, initial=0.0), [], 0.0
    steps = fake_steps(windows.append, first_step=100, now=lambda: now_s)
    step, pipeline = steps.clock.wrap(lambda source: "logs"), Pipeline()
    for _ in durations:
        now_s = next(entries)
        assert step(pipeline) == "logs"
    steps.clock.pause()
    steps.clock.end()
    return windows, steps.calls


@pytest.mark.parametrize("steps", [12, 96, 97, 98, 99, 100])
def test_windows_have_all_steps_but_the_first_of_a_pipeline_and_the_last(steps):
    # The first takes 9 s, for tracing; the last has no next step to end it, and may end a reading.
    windows, calls = clocked([9.0, *[0.001] * (steps - 2), 7.0])
    assert sum(window.steps for window in windows) == steps - 2
    duration_s = sum(window.duration_s for window in windows)
    assert duration_s == pytest.approx(0.001 * (steps - 2))
    assert sum(window.input_wait_s for window in windows) == pytest.approx(duration_s / 4)
    assert (calls.steps, calls.step) == (steps, 100 + steps)


def test_a_long_run_is_told_about_once_a_second():
    windows, _ = clocked([0.001] * 10_000)
    assert len(windows) == pytest.approx(10, abs=1)
    assert sum(window.input_wait_s for window in windows) == pytest.approx(9.998 / 4)
    windows, _ = clocked([0.5] * 20)
    assert max(window.duration_s for window in windows) <= 1.5


def test_a_step_function_that_raises_is_no_step_and_may_be_tried_again():
    windows, errors = [], iter([StopIteration, RuntimeError])
    steps = fake_steps(windows.append)

    def step_function(source):
        if error := next(errors, None):
            raise error("out of memory")

    step, pipeline = steps.clock.wrap(step_function), Pipeline()
    for error in (StopIteration, RuntimeError):
        with pytest.raises(error):
            step(pipeline)
        assert steps.calls.steps == 0
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
    clock = fake_steps(on_error=errors.append).clock
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
    clock = fake_steps(works, cost=cost).clock
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
    clock = fake_steps(windows.append, now=lambda: now_s).clock
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
