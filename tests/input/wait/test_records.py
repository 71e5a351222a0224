"""Where the time of a run goes, and how its waits are distributed, against runs that are known."""

from contextlib import nullcontext

import keras
import numpy as np
import pytest
import tensorflow as tf
from helpers.stopped_clock import STEP_S, clocked_model, scripted_clock
from helpers.training import BATCH, SlowPyDataset, fast_dataset, small_model, summary_of

import keras_gpukit as gpukit
from keras_gpukit.input.wait.meters import PipelineStart
from keras_gpukit.input.wait.totals import StepTotals, WaitHistogram
from keras_gpukit.records import StepWindow, WaitDistribution, from_dict, to_dict
from keras_gpukit.saved_runs.folding import RunFold

BATCHES = 30


def watched(data, model=None, *, others=(), position=0, epochs=3, **fit_options):
    callback, callbacks = gpukit.InputStall(None), [*others]
    callbacks.insert(position, callback)
    model = model or small_model()
    model.fit(data, epochs=epochs, verbose=0, callbacks=callbacks, **fit_options)
    return callback.summary


@pytest.fixture
def clock(monkeypatch):
    return scripted_clock(monkeypatch)


def parts(breakdown):
    """The parts that took any time; in a step function, tf.data's own clock shows wait and work."""
    names = "callbacks", "first_step", "other", "tracing", "validation"
    found = {name: getattr(breakdown, f"{name}_s") for name in names}
    found["steps"] = breakdown.input_s + breakdown.compute_s + breakdown.epoch_start_s
    return {name: round(seconds, 9) for name, seconds in found.items() if seconds > 1e-9}


@pytest.mark.parametrize("position", [0, 1])
def test_each_part_has_the_time_that_passed_in_it(clock, position):
    hooks = {
        "on_epoch_begin": clock.takes(16),
        "on_train_batch_end": clock.takes(1),
        "on_epoch_end": clock.takes(64),
    }
    callback = keras.callbacks.LambdaCallback(**hooks)
    options = {"validation_data": fast_dataset(3), "others": [callback], "position": position}
    breakdown = watched(fast_dataset(5), clocked_model(clock), **options).breakdown
    assert parts(breakdown) == {
        "callbacks": 3 * (16 + 5 + 64),
        "first_step": STEP_S,
        "steps": 14 * STEP_S,
        "validation": 9 * STEP_S,
    }
    assert breakdown.wall_s == clock.now_s
    assert breakdown.callbacks_at_epochs["LambdaCallback"] == 3 * (16 + 64)


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
    assert breakdown.tracing_s > 0
    assert not hasattr(model.train_function, "__wrapped__")  # what the model made is restored


def test_what_follows_a_validation_in_its_epoch_is_its_own(clock):
    class EndsSlowly(gpukit.InputStall):
        """Stands for Keras, which frees the validation's pipeline after its last hook."""

        def on_test_end(self, logs=None):
            super().on_test_end(logs)
            clock.now_s += 8

    callback = EndsSlowly(None)
    options = {"epochs": 2, "verbose": 0, "validation_data": fast_dataset(5)}
    clocked_model(clock).fit(fast_dataset(5), callbacks=[callback], **options)
    assert callback.summary.breakdown.validation_s == 2 * (8 + 5 * STEP_S)


def test_what_keras_does_at_an_epochs_end_is_no_callbacks_time(clock):
    class EndsSlowly(SlowPyDataset):
        def on_epoch_end(self):
            clock.now_s += 8

    each_step = keras.callbacks.LambdaCallback(on_train_batch_end=clock.takes(1))
    breakdown = watched(EndsSlowly(5, 0.0), clocked_model(clock), others=[each_step]).breakdown
    assert parts(breakdown) == {
        "callbacks": 15,
        "first_step": STEP_S,
        "other": 3 * 8,
        "steps": 14 * STEP_S,
    }


def test_a_run_whose_steps_were_not_all_seen_has_no_breakdown():
    class MakesAnew(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            if batch == 10:
                self.model.make_train_function(force=True)

    record = watched(fast_dataset(BATCHES), others=[MakesAnew()])
    assert record.breakdown is None
    assert "replaced" in record.unknown_because


@pytest.mark.parametrize("position", [0, 1])
def test_an_evaluation_by_a_callback_counts_once_and_does_not_end_the_run(clock, position):
    class Evaluates(keras.callbacks.Callback):
        def on_epoch_end(self, epoch, logs=None):
            data = fast_dataset(5)
            self.model.evaluate(data, verbose=0, callbacks=[gpukit.InputStall(None)])

    options = {"others": [Evaluates()], "position": position}
    breakdown = watched(fast_dataset(5), clocked_model(clock), **options).breakdown
    assert breakdown.validation_s == 3 * 5 * STEP_S
    assert breakdown.wall_s == sum(parts(breakdown).values()) == 30 * STEP_S


def test_a_pause_within_an_epoch_begins_no_other_epoch():
    class Evaluates(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            if batch == BATCHES // 2:
                self.model.evaluate(fast_dataset(5), verbose=0, callbacks=[callback])

    callback = gpukit.InputStall(None)
    small_model().fit(fast_dataset(BATCHES), verbose=0, callbacks=[callback, Evaluates()])
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
    summary = summary_of(model, **data, callback=gpukit.Throughput(None))
    if batch_size is None:
        assert summary.examples_per_s is None
        assert "batch size is unknown" in summary.examples_unknown_because
    else:
        assert summary.examples_per_s * summary.step_time_s == pytest.approx(batch_size)


@pytest.mark.parametrize(("weighted", "micro_batches"), [(False, 1), (True, 1), (False, 2)])
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
    in_parts = (
        gpukit.accumulate_gradients(model, micro_batches=micro_batches)
        if micro_batches > 1
        else nullcontext()
    )
    with in_parts:
        summary = summary_of(
            model, fast_dataset(BATCHES), callback=gpukit.Throughput(None), epochs=2
        )
    rate = summary.examples_per_s * summary.step_time_s
    assert rate == pytest.approx(BATCH, rel=0.01)


def spread_of(waits_s, step_s=0.01, chunk=7):
    distribution = WaitHistogram(1)
    waits_s = np.asarray(waits_s)
    for begin in range(0, len(waits_s), chunk):
        part = waits_s[begin : begin + chunk]
        distribution.add_waits(part, np.full(len(part), step_s))
    return distribution.distribution()


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


def test_a_step_of_an_execution_has_its_share_of_the_wait():
    histogram, waits_s = WaitHistogram(5), np.zeros(40)
    waits_s[::4] = 0.5
    histogram.add_waits(waits_s, np.full(40, 1.0))
    record = histogram.distribution()
    assert (record.worst_s, record.stalled_fraction) == (0.1, 0.25)
    assert record.burst_period_steps == 20  # every fourth execution


def test_bursts_at_random_have_no_period_and_no_step_has_no_distribution():
    assert WaitHistogram(1).distribution() is None
    waits_s = np.where(np.random.default_rng(0).random(2000) < 0.05, 0.005, 0.0)
    assert spread_of(waits_s).burst_period_steps is None


def test_the_longest_waits_for_first_batches_are_kept_and_the_share_of_a_shuffle_buffer():
    totals = StepTotals("fit", 1, lambda record: record)
    for wait_s in (0.1, 3.0, 0.2, 0.1, 0.4, 0.3, 0.1):
        totals.add_start(PipelineStart(wait_s, shuffle_fraction=None))
    record = totals.input(None, None).pipeline_start
    assert (record.epochs, record.mean_s) == (7, pytest.approx(0.6))
    assert record.longest_s == (3.0, 0.4, 0.3, 0.2, 0.1)
    totals = StepTotals("fit", 1, lambda record: record)
    for start in (PipelineStart(1.0, shuffle_fraction=0.5), PipelineStart(3.0, None)):
        totals.add_start(start)
    record = totals.input(None, None).pipeline_start
    assert (record.mean_s, record.shuffle_s) == (2.0, 1.0)


def test_the_upper_end_of_a_stall_is_that_of_the_windows_whose_wait_is_known():
    fold = RunFold()
    totals = StepTotals("fit", 1, fold.measured)
    for waits_s in ({"input_wait_s": 0.2, "most_wait_s": 0.4}, {}):
        window = StepWindow("fit", 1.0, 10, 10, 1.0, **waits_s)
        totals.add_window(window)
        fold.add_record("steps", window, 1.0, 10)
    record = totals.input(None, None)
    assert (record.stall_fraction, record.most_stall_fraction) == (0.2, 0.4)
