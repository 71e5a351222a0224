"""Where the time of a run goes, and how its waits are distributed, against runs that are known."""

from __future__ import annotations

import time
from contextlib import nullcontext

import keras
import numpy as np
import pytest
import tensorflow as tf
from helpers.training import (
    BATCH,
    SlowPyDataset,
    fast_dataset,
    sleeping_model,
    slow_dataset,
    small_model,
    without_autotuning,
)

import keras_gpukit as gpukit
from keras_gpukit.input.wait.histograms import WaitHistogram
from keras_gpukit.input.wait.meters import PipelineStart
from keras_gpukit.input.wait.totals import StepTotals
from keras_gpukit.records.codec import from_dict, to_dict
from keras_gpukit.records.names import INPUT_STALL
from keras_gpukit.records.steps import WaitDistribution

pytestmark = pytest.mark.usefixtures("undisturbed")

BATCHES = 30
STEP_PAUSE_S, EPOCH_PAUSE_S = 0.02, 0.5


class Pauses(keras.callbacks.Callback):
    """Takes a known time after each step and each epoch."""

    slept_s = 0.0

    def on_train_batch_end(self, batch, logs=None):
        self.sleep(STEP_PAUSE_S)

    def on_epoch_end(self, epoch, logs=None):
        self.sleep(EPOCH_PAUSE_S)

    def sleep(self, seconds):
        began_s = time.perf_counter()
        time.sleep(seconds)
        self.slept_s += time.perf_counter() - began_s


def watched(data, model=None, *, others=(), epochs=3, **fit_options):
    callback = gpukit.InputStall(None)
    model = model or sleeping_model(0.005)
    model.fit(data, epochs=epochs, verbose=0, callbacks=[callback, *others], **fit_options)
    return callback.summary


def parts(breakdown):
    return [
        breakdown.input_s,
        breakdown.compute_s,
        breakdown.callbacks_s,
        breakdown.epoch_start_s,
        breakdown.first_step_s,
        breakdown.validation_s,
        breakdown.other_s,
        breakdown.tracing_s,
    ]


@pytest.mark.parametrize("steps_per_execution", [1, 5])
def test_the_parts_add_up_to_the_wall_time(steps_per_execution):
    model = sleeping_model(0.005, steps_per_execution=steps_per_execution)
    data, validation_data = slow_dataset(BATCHES, 0.02), fast_dataset(5)
    watched(fast_dataset(5))  # what a process's first fit sets up is no part of this one
    ended = []

    class NotesEnd(keras.callbacks.Callback):
        # Afterwards TensorFlow takes up to half a second to release an iterator, also without us.
        def on_train_end(self, logs=None):
            ended.append(time.perf_counter())

    began = time.perf_counter()
    options = {"validation_data": validation_data, "others": [NotesEnd()]}
    breakdown = watched(data, model, **options).breakdown
    wall_s = ended[0] - began
    assert sum(parts(breakdown)) == pytest.approx(breakdown.wall_s, rel=0.02)
    assert 0.8 * wall_s <= breakdown.wall_s <= wall_s


def test_slow_callbacks_are_told_apart_from_input():
    pauses = Pauses()
    breakdown = watched(fast_dataset(BATCHES), others=[pauses]).breakdown
    slept_s = pauses.slept_s
    # What a callback behind this one does with an epoch's last batch is not known.
    assert 0.95 * slept_s <= breakdown.callbacks_s <= 1.3 * slept_s
    assert breakdown.input_s < 0.1 * slept_s
    assert next(iter(breakdown.by_callback)) == "Pauses"
    assert 3 * EPOCH_PAUSE_S <= breakdown.by_callback["Pauses"] <= breakdown.callbacks_s


@pytest.mark.parametrize("hook", ["on_epoch_begin", "on_epoch_end"])
def test_a_step_function_made_again_between_epochs_is_followed_and_its_tracing_told_apart(hook):
    class MakesAnew(keras.callbacks.Callback):
        pass

    def make(self, epoch, logs=None):
        self.model.make_train_function(force=True)

    setattr(MakesAnew, hook, make)
    model = small_model()
    record = watched(fast_dataset(BATCHES), model, others=[MakesAnew()])
    assert record.measured_steps > 2 * BATCHES
    breakdown = record.breakdown
    # In the first epoch's begin it is made before anything was traced.
    assert breakdown.tracings == 2
    assert breakdown.tracing_s > 5 * breakdown.compute_s / (3 * BATCHES)
    assert sum(parts(breakdown)) == pytest.approx(breakdown.wall_s, rel=0.02)
    assert not hasattr(model.train_function, "__wrapped__")  # what the model made is restored


def test_what_follows_a_validation_in_its_epoch_is_its_own():
    class EndsSlowly(gpukit.InputStall):
        """Stands for Keras, which frees the validation's pipeline after its last hook."""

        def on_test_end(self, logs=None):
            super().on_test_end(logs)
            time.sleep(EPOCH_PAUSE_S)

    callback = EndsSlowly(None)
    options = {"epochs": 2, "verbose": 0, "validation_data": fast_dataset(5)}
    small_model().fit(fast_dataset(5), callbacks=[callback], **options)
    breakdown = callback.summary.breakdown
    assert breakdown.validation_s >= 2 * EPOCH_PAUSE_S
    assert breakdown.other_s < EPOCH_PAUSE_S


def test_what_keras_does_at_an_epochs_end_is_no_callbacks_time():
    class EndsSlowly(SlowPyDataset):
        def on_epoch_end(self):
            time.sleep(EPOCH_PAUSE_S)

    breakdown = watched(EndsSlowly(BATCHES, 0.0)).breakdown
    assert breakdown.callbacks_s < 0.5 * EPOCH_PAUSE_S
    assert sum(parts(breakdown)) == pytest.approx(breakdown.wall_s, rel=0.02)


def test_a_run_whose_steps_were_not_all_seen_has_no_breakdown():
    class MakesAnew(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            if batch == 10:
                self.model.make_train_function(force=True)

    record = watched(fast_dataset(BATCHES), others=[MakesAnew()])
    assert record.breakdown is None
    assert "replaced" in record.unknown_because


@pytest.mark.parametrize("position", [0, 1])
def test_an_evaluation_by_a_callback_counts_once_and_does_not_end_the_run(position):
    class Evaluates(keras.callbacks.Callback):
        def on_epoch_end(self, epoch, logs=None):
            slow = slow_dataset(5, 0.05)
            self.model.evaluate(slow, verbose=0, callbacks=[gpukit.InputStall(None)])

    callback, model = gpukit.InputStall(None), small_model()
    model.fit(fast_dataset(5), verbose=0)
    callbacks = [callback]
    callbacks.insert(position, Evaluates())
    began = time.perf_counter()
    model.fit(fast_dataset(5), epochs=3, verbose=0, callbacks=callbacks)
    breakdown = callback.summary.breakdown
    assert breakdown.validation_s >= 3 * 5 * 0.05
    assert breakdown.wall_s >= 0.6 * (time.perf_counter() - began)
    assert sum(parts(breakdown)) == pytest.approx(breakdown.wall_s, rel=0.02)


def test_validation_is_a_part_of_its_own():
    breakdown = watched(fast_dataset(10), validation_data=slow_dataset(10, 0.05)).breakdown
    assert breakdown.validation_s >= 3 * 10 * 0.05 * 0.9
    assert breakdown.input_s < 0.3 * breakdown.validation_s


@pytest.mark.parametrize("modelled", [True, False])
def test_filling_a_shuffle_buffer_starts_an_epoch_and_is_no_stall(modelled):
    # Twenty batches must be drawn before the first one is there.
    filled_s = 20 * 0.04
    data = slow_dataset(BATCHES, 0.04).unbatch().shuffle(20 * BATCH).batch(BATCH)
    data = data.apply(tf.data.experimental.assert_cardinality(BATCHES))
    if not modelled:
        data = without_autotuning(data)
    record = watched(data)
    start = record.pipeline_start
    assert start.epochs == 2
    assert start.mean_s >= 0.9 * filled_s
    assert record.breakdown.epoch_start_s >= 2 * 0.9 * filled_s
    assert record.wait_s < 0.1
    if modelled:
        assert start.shuffle_s == pytest.approx(start.mean_s * 20 / 21, rel=0.05)
    else:
        assert start.shuffle_s is None


def test_no_shuffle_buffer_takes_no_time_to_fill():
    record = watched(slow_dataset(10, 0.1))
    assert record.pipeline_start.shuffle_s == 0
    assert record.pipeline_start.mean_s >= 0.04


def test_a_slow_batch_now_and_then_shows_in_the_distribution():
    def every_tenth(index, batch):
        return tf.cond(index % 10 == 9, lambda: slow(batch), lambda: batch)

    def slow(batch):
        with tf.control_dependencies([tf.py_function(lambda: time.sleep(0.3), [], [])]):
            return tf.nest.map_structure(tf.identity, batch)

    data = fast_dataset(80).enumerate().map(every_tenth).prefetch(1)
    distribution = watched(data, sleeping_model(0.02), epochs=1).distribution
    assert distribution.worst_s >= 0.15
    assert distribution.median_s < 0.1 * distribution.worst_s
    assert 0.05 <= distribution.stalled_fraction <= 0.4


def test_the_course_shows_where_a_run_slowed_down():
    data = fast_dataset(60).concatenate(slow_dataset(60, 0.05))
    monitor = gpukit.Monitor(None)
    small_model().fit(data, verbose=0, callbacks=[monitor])
    (stall,) = (each for each in monitor.summary.series if each.tag == INPUT_STALL)
    assert stall.mean[-1] > 60
    assert sum(stall.weight) == 118


def test_a_cache_that_fills_stalls_the_first_epoch_alone():
    data = slow_dataset(BATCHES, 0.05).cache()
    record = watched(data, small_model())
    assert record.later_stall_fraction < 0.5 * record.stall_fraction
    assert watched(fast_dataset(BATCHES), epochs=1).later_stall_fraction is None


def test_a_pause_within_an_epoch_begins_no_other_epoch():
    class Evaluates(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            if batch == BATCHES // 2:
                self.model.evaluate(fast_dataset(5), verbose=0, callbacks=[callback])

    callback = gpukit.InputStall(None)
    sleeping_model(0.005).fit(fast_dataset(BATCHES), verbose=0, callbacks=[callback, Evaluates()])
    assert callback.summary.later_stall_fraction is None
    assert callback.summary.measured_steps > BATCHES // 2


class CountsNothing(keras.Sequential):
    def train_step(self, data):
        return {"loss": tf.reduce_mean(self(data[0]))}


class OfOnes(keras.utils.PyDataset):
    def __init__(self, batch_size):
        super().__init__()
        self.batch_size = batch_size

    def __len__(self):
        return BATCHES

    def __getitem__(self, index):
        return np.ones((self.batch_size, 8), "float32"), np.ones((self.batch_size, 1), "float32")


def generated(*sizes):
    return ((np.ones((size, 8)), np.ones((size, 1))) for size in sizes)


X = np.ones((20 * BATCHES - 1, 8), "float32")


@pytest.mark.parametrize(
    ("data", "batch_size"),
    [
        ({"x": X, "y": X[:, :1], "batch_size": 20}, 20),
        ({"x": tf.data.Dataset.from_tensor_slices((X, X)).batch(20).prefetch(2)}, 20),
        ({"x": OfOnes(20)}, 20),
        ({"x": generated(*[20] * BATCHES)}, 20),
        ({"x": generated(*[20, 21] * (BATCHES // 2))}, None),
    ],
    ids=["arrays", "dataset", "PyDataset", "generator", "batches of several sizes"],
)
def test_a_train_step_that_counts_no_examples_has_those_of_full_batches(data, batch_size):
    model = CountsNothing([keras.Input((8,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse", jit_compile=False)
    callback = gpukit.Throughput(None)
    model.fit(**data, verbose=0, callbacks=[callback])
    summary = callback.summary
    if batch_size is None:
        assert summary.examples_per_s is None
        assert "batch size is unknown" in summary.examples_unknown_because
    else:
        assert summary.examples_per_s * summary.step_time_s == pytest.approx(batch_size)


@pytest.mark.parametrize("micro_batches", [1, 2])
@pytest.mark.parametrize("weighted", [False, True])
def test_a_train_step_that_counts_batches_has_the_examples_of_full_ones(weighted, micro_batches):
    class Own(keras.Model):
        def train_step(self, data):
            x, y = data
            with tf.GradientTape() as tape:
                loss = self.compute_loss(y=y, y_pred=self(x, training=True))
            gradients = tape.gradient(loss, self.trainable_variables)
            self.optimizer.apply(gradients, self.trainable_variables)
            weight = tf.shape(x)[0] if weighted else None
            self._loss_tracker.update_state(loss, sample_weight=weight)
            return {"loss": self._loss_tracker.result()}

    inputs = keras.Input((8,))
    model = Own(inputs, keras.layers.Dense(1)(inputs))
    model.compile("sgd", "mse", jit_compile=False)
    callback = gpukit.Throughput(None)
    parts = (
        gpukit.accumulate_gradients(model, micro_batches=micro_batches)
        if micro_batches > 1
        else nullcontext()
    )
    with parts:
        model.fit(fast_dataset(BATCHES), epochs=2, verbose=0, callbacks=[callback])
    summary = callback.summary
    rate = summary.examples_per_s * summary.step_time_s
    assert rate == pytest.approx(BATCH, rel=0.01)


def spread_of(waits_s, step_s=0.01, chunk=7):
    distribution = WaitHistogram(1)
    waits_s = np.asarray(waits_s)
    for begin in range(0, len(waits_s), chunk):
        part = waits_s[begin : begin + chunk]
        distribution.add(part, np.full(len(part), step_s))
    return distribution.record()


def test_quantiles_are_those_of_the_waits():
    waits_s = np.random.default_rng(0).lognormal(-7, 1, 5000).clip(0, 0.01)
    record = spread_of(waits_s)
    assert record.median_s == pytest.approx(np.quantile(waits_s, 0.5), rel=0.05)
    assert record.p95_s == pytest.approx(np.quantile(waits_s, 0.95), rel=0.05)
    assert record.worst_s == pytest.approx(waits_s.max())
    assert record.stalled_fraction == pytest.approx(np.mean(waits_s >= 0.001))


@pytest.mark.parametrize("chunk", [1, 7, 100])
def test_bursts_do_not_depend_on_how_they_were_read(chunk):
    waits_s = np.zeros(100)
    waits_s[5::20] = waits_s[6::20] = 0.005
    record = spread_of(waits_s, chunk=chunk)
    assert record.burst_period_steps == 20
    # Also in a run's record, which knows no numbers of NumPy's.
    assert from_dict(to_dict(record), WaitDistribution) == record


def test_bursts_at_random_have_no_period_and_no_step_has_no_distribution():
    assert WaitHistogram(1).record() is None
    waits_s = np.where(np.random.default_rng(0).random(2000) < 0.05, 0.005, 0.0)
    assert spread_of(waits_s).burst_period_steps is None


def test_the_longest_waits_for_first_batches_are_kept():
    totals = StepTotals("fit", 1, lambda record: record)
    for wait_s in (0.1, 3.0, 0.2, 0.1, 0.4, 0.3, 0.1):
        totals.add_start(PipelineStart(wait_s, shuffle_fraction=None))
    record = totals.input(None, None, None).pipeline_start
    assert (record.epochs, record.mean_s) == (7, pytest.approx(0.6))
    assert record.longest_s == (3.0, 0.4, 0.3, 0.2, 0.1)
