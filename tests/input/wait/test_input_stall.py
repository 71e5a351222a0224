"""The input wait, against pipelines and steps whose times are known."""

from __future__ import annotations

import itertools
import json
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
    sleeping_model,
    slow_dataset,
    slow_generator,
    small_model,
    without_autotuning,
    working_model,
)

import keras_gpukit as gpukit
from keras_gpukit.input.wait.clock import OwnCost
from keras_gpukit.input.wait.examples import ExampleCounter
from keras_gpukit.input.wait.meters import WaitReading

pytestmark = pytest.mark.usefixtures("undisturbed")

# The step of a small model takes about a millisecond, so such a pipeline always limits it, also
# on a machine that is busy with other things. How exact the figures are, a benchmark shows.
PIPELINE_S = 0.04
# Likewise, such a step takes many times as long as fetching what is there.
STEP_S = 0.01
# What a pipeline that is always ready stalls at most, on a machine that is busy with other things.
NONE = 0.2
BATCHES = 40


def stall(data, model=None, **fit_options):
    callback = gpukit.InputStall(None)
    model = model or small_model()
    model.fit(data, verbose=0, callbacks=[callback], **fit_options)
    return callback.summary


def test_the_slower_the_pipeline_the_larger_the_stall():
    model, throughput = sleeping_model(STEP_S), gpukit.Throughput(None)
    model.fit(fast_dataset(BATCHES), epochs=2, verbose=0, callbacks=[throughput])
    step_s = throughput.summary.step_time_s
    records = [stall(slow_dataset(BATCHES, times * step_s), model) for times in (0, 2, 8)]
    none, half, most = (record.stall_fraction for record in records)
    assert none < half < most
    assert {record.confidence for record in records} == {"exact"}


@pytest.mark.parametrize("options", [{"jit_compile": True}, {"run_eagerly": True}])
def test_jit_and_eager_steps(options):
    # A quick step waits for a slow pipeline, and a slow step not for a quick one. Eager steps take
    # up to 0.1 s on a busy machine.
    slow = stall(slow_dataset(8, 0.4), small_model(**options))
    fast = stall(fast_dataset(20), working_model(**options), epochs=2)
    assert slow.stall_fraction > fast.stall_fraction + 0.2
    assert fast.stall_fraction < NONE


def asking_to_be_tuned(data):
    return data.map(lambda *batch: batch, num_parallel_calls=tf.data.AUTOTUNE)


def shuffled(data):
    return data.shuffle(4)


def untuned(change, batches=BATCHES, seconds=PIPELINE_S):
    return without_autotuning(change(slow_dataset(batches, seconds)))


SLOW = {
    "PyDataset": (lambda: SlowPyDataset(BATCHES, PIPELINE_S), 1, "pipeline model", "exact", 0.6),
    "PyDataset, two workers": (
        lambda: SlowPyDataset(BATCHES, 2 * PIPELINE_S, workers=2), 1, "fetch latency", "exact", 0.6
    ),
    "generator": (lambda: slow_generator(BATCHES, PIPELINE_S), 1, "pipeline model", "exact", 0.6),
    "autotuning is off": (lambda: untuned(shuffled), 1, "fetch latency", "exact", 0.6),
    "a stage asks to be tuned": (
        lambda: untuned(asking_to_be_tuned), 1, "fetch latency", "exact", 0.6
    ),
    "executions": (lambda: slow_dataset(64, PIPELINE_S), 8, "pipeline model", "sampled", 0.6),
    "executions of two": (
        lambda: slow_dataset(24, PIPELINE_S), 2, "pipeline model", "upper bound", 0.6
    ),
    "executions, autotuning is off": (
        lambda: untuned(shuffled, 64), 8, "pipeline model", "sampled", 0.25
    ),
    "executions, a stage asks to be tuned": (
        lambda: untuned(asking_to_be_tuned, 64), 8, "fetch latency", "upper bound", 0.25
    ),
}  # fmt: skip


@pytest.mark.parametrize(
    ("data", "steps", "mechanism", "confidence", "least"), SLOW.values(), ids=SLOW
)
def test_slow_inputs_stall(data, steps, mechanism, confidence, least):
    record = stall(data(), small_model(steps_per_execution=steps))
    assert (record.mechanism, record.confidence) == (mechanism, confidence)
    assert record.stall_fraction >= least


READY = {
    "cached": lambda: (fast_dataset(BATCHES), {}),
    "arrays": lambda: (arrays(BATCHES)[0], {"y": arrays(BATCHES)[1], "batch_size": BATCH}),
    "autotuning is off": lambda: (untuned(shuffled, seconds=0.0), {}),
    "a stage asks to be tuned": lambda: (untuned(asking_to_be_tuned, seconds=0.0), {}),
}


@pytest.mark.parametrize("data", READY.values(), ids=READY)
def test_batches_that_are_ready_do_not_stall(data):
    given, options = data()
    assert stall(given, sleeping_model(STEP_S), epochs=2, **options).stall_fraction < NONE


def test_fetching_that_hides_behind_compute_is_no_stall():
    # Each step computes some 40 ms, and meanwhile the next batch is fetched for half that time.
    model = sleeping_model(0.02, steps_per_execution=8)
    record = stall(slow_dataset(64, 0.02), model)
    assert record.confidence == "sampled"
    assert record.stall_fraction < 0.2


@pytest.mark.parametrize("steps", [40, 100])
def test_long_executions_are_measured(steps):
    record = stall(slow_dataset(6 * steps, 0.01), small_model(steps_per_execution=steps))
    # The first execution includes tracing, and no execution follows the last one. A window is a
    # second, so that with 100 steps the first two executions are read alone.
    assert record.measured_steps >= 2 * steps
    assert record.unknown_because is None
    model = sleeping_model(0.005, steps_per_execution=steps)
    assert stall(fast_dataset(6 * steps), model).stall_fraction < record.stall_fraction


@pytest.mark.parametrize(
    ("data", "steps", "because"),
    [
        # The gap after an execution's last fetch may be an interruption, and stands for all steps.
        (lambda: slow_dataset(4 * 40, 0.01), 40, "fewer than 3 executions"),
        (lambda: fast_dataset(404), 101, "more than 100 steps"),
    ],
    ids=["few executions", "executions longer than tf.data remembers"],
)
def test_executions_that_are_unknown_say_so(data, steps, because):
    record = stall(data(), small_model(steps_per_execution=steps))
    assert record.stall_fraction is None
    assert because in record.unknown_because


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


def test_eager_executions_hide_nothing():
    model = small_model(steps_per_execution=4, run_eagerly=True)
    slow, fast = (stall(slow_dataset(12, seconds), model) for seconds in (0.3, 0.0))
    assert {slow.confidence, fast.confidence} == {"exact"}
    assert slow.stall_fraction > fast.stall_fraction + 0.1


def test_batches_that_come_in_pairs_are_seen_through():
    # Two maps wait in parallel: every other fetch finds its batch, in step with the executions.
    def in_pairs(seconds):
        def wait(*batch):
            with tf.control_dependencies([tf.py_function(lambda: time.sleep(seconds), [], [])]):
                return tf.nest.map_structure(tf.identity, batch)

        return fast_dataset(64).map(wait, num_parallel_calls=2, deterministic=True)

    model = sleeping_model(0.02, steps_per_execution=8)
    # A batch each 160 ms, and each 5 ms, for a step of some 40.
    slow, fast = (stall(in_pairs(seconds), model) for seconds in (0.32, 0.01))
    assert {slow.confidence, fast.confidence} == {"sampled"}
    assert slow.stall_fraction > fast.stall_fraction + 0.25


def test_a_pipeline_that_is_out_of_reach_is_unknown_and_says_why(monkeypatch):
    monkeypatch.setattr("keras_gpukit.watching.phase_steps.epoch_iterator", lambda _: None)
    record = stall(without_autotuning(slow_dataset(4, 0)))
    assert record.stall_fraction is None
    assert "autotuning is off" in record.unknown_because


def test_epochs_over_one_endless_pipeline_go_on_being_measured():
    data = slow_dataset(BATCHES, PIPELINE_S).repeat(3)
    record = stall(data, epochs=4, steps_per_epoch=20)
    assert record.measured_steps > 60
    assert record.stall_fraction >= 0.7


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


def test_evaluate_and_predict_are_measured():
    model, callback = small_model(), gpukit.InputStall(None)
    model.evaluate(slow_dataset(BATCHES, PIPELINE_S), verbose=0, callbacks=[callback])
    assert callback.summary.phase == "evaluate"
    assert callback.summary.stall_fraction >= 0.6
    model.predict(slow_dataset(BATCHES, PIPELINE_S), verbose=0, callbacks=[callback])
    assert callback.summary.phase == "predict"
    assert callback.summary.stall_fraction >= 0.6


def test_validation_is_told_apart():
    callback, throughput = gpukit.InputStall(None), gpukit.Throughput(None)
    sleeping_model(STEP_S).fit(
        fast_dataset(BATCHES),
        epochs=2,
        validation_data=slow_dataset(10, 10 * STEP_S),
        verbose=0,
        callbacks=[callback, throughput],
    )
    assert callback.summary.stall_fraction < 0.2
    assert callback.validation.stall_fraction >= 0.4
    assert throughput.summary.steps == 2 * BATCHES
    assert throughput.validation.steps == 2 * 10


def test_throughput_counts_every_example_and_step():
    inputs, targets = arrays(10)
    callback = gpukit.Throughput(None)
    model = small_model(steps_per_execution=4)
    # 155 examples: nine batches of 16 and one of 11, in three executions.
    model.fit(inputs[:155], targets[:155], batch_size=BATCH, verbose=0, callbacks=[callback])
    assert callback.summary.steps == 10
    several = gpukit.Throughput(None)
    # Three epochs of ten steps each, the last execution of each a shorter one.
    model = small_model(steps_per_execution=4)
    model.fit(
        inputs[:155], targets[:155], epochs=3, verbose=0, callbacks=[several], batch_size=BATCH
    )
    assert several.summary.steps == 30
    slow = gpukit.Throughput(None)
    small_model().fit(slow_dataset(30, PIPELINE_S), verbose=0, callbacks=[slow])
    rate = slow.summary.examples_per_s
    assert rate == pytest.approx(BATCH / slow.summary.step_time_s, rel=0.01)
    assert slow.summary.step_time_s >= PIPELINE_S


def unknown_length(data):
    return data.filter(lambda *_: True)


def test_the_end_of_data_of_unknown_length_is_no_wait():
    # A slow second step makes the first gap the longest: read one off, it would look like waiting.
    class SlowSecondStep(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            if batch == 1:
                time.sleep(0.5)

    callback = gpukit.InputStall(None)
    sleeping_model(STEP_S).fit(
        unknown_length(fast_dataset(12)),
        epochs=3,
        verbose=0,
        callbacks=[callback, SlowSecondStep()],
    )
    assert callback.summary.stall_fraction < 0.2


def test_a_slow_callback_on_the_last_batch_hides_no_wait():
    class SlowLastStep(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            if batch == 19:
                time.sleep(0.5)

    callback = gpukit.InputStall(None)
    small_model().fit(
        unknown_length(slow_dataset(20, PIPELINE_S)),
        epochs=2,
        verbose=0,
        callbacks=[callback, SlowLastStep()],
    )
    assert callback.summary.stall_fraction > 0.5


MIRRORED = """
import json
import tensorflow as tf, keras
from helpers.training import fast_dataset, sleeping_model, slow_dataset
import keras_gpukit as gpukit
cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
records = {}
for name, data in (("slow", slow_dataset(12, 0.25)), ("fast", fast_dataset(40))):
    with strategy.scope():
        model = sleeping_model(0.02)
    callback = gpukit.InputStall(None)
    model.fit(data, epochs=2, verbose=0, callbacks=[callback])
    records[name] = callback.summary.stall_fraction
print(json.dumps(records))
"""


def test_two_replicas(run_script):
    records = json.loads(run_script(MIRRORED).stdout.splitlines()[-1])
    assert records["slow"] > records["fast"] + 0.25


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
    clock.work_out()
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
    steps.clock.work_out()
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


def test_readings_switch_threads_promptly_and_their_waits_are_no_overhead():
    usual_s, seen_s = sys.getswitchinterval(), []

    def waits(window):
        seen_s.append(sys.getswitchinterval())
        time.sleep(0.3)  # as for the GIL
        raise RuntimeError("a listener fails")

    cost = OwnCost()
    clock = clocked_steps(lambda source: FakeMeter(), waits, cost=cost).clock
    step, pipeline = clock.wrap(lambda source: None), Pipeline()
    for _ in range(12):
        step(pipeline)
    clock.pause()
    clock.work_out()
    assert seen_s
    assert max(seen_s) < usual_s == sys.getswitchinterval()
    assert 0 < cost.once_s + cost.recurring_s < 0.3


def test_a_window_ends_when_its_last_call_returned_and_not_when_callbacks_let_go():
    windows, now_s = [], 0.0
    clock = fake_clock(windows, now=lambda: now_s)
    step, pipeline = clock.wrap(lambda source: None), Pipeline()
    for _ in range(12):
        now_s += 0.01
        step(pipeline)
    ended_s = time.time()
    now_s += 20.0  # a checkpoint, by a callback listed before
    clock.pause()
    clock.work_out()
    assert windows[-1].time_s == pytest.approx(ended_s - 20.0, abs=1.0)


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
