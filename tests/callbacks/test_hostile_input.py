"""Input that is broken, endless or odd: no wrong figure, no hang, and the run as without us."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from helpers.processes import wait_for
from helpers.training import BATCH, FEATURES, arrays, fast_dataset, small_model, without_autotuning

import keras_gpukit as gpukit
from keras_gpukit.sensors.sampling_thread import Heartbeat


def batches(count=80):
    return tf.data.Dataset.from_tensor_slices(arrays(count)).batch(BATCH)


def raises_at_50():
    def check(index, batch):
        with tf.control_dependencies([tf.debugging.assert_less(index, np.int64(50))]):
            return tf.nest.map_structure(tf.identity, batch)

    return batches().enumerate().map(check)


def generator_raises():
    inputs, targets = arrays(80)
    for index in range(80):
        if index == 50:
            raise OSError("the disk is gone")
        rows = slice(index * BATCH, (index + 1) * BATCH)
        yield inputs[rows], targets[rows]


def unbalanced():
    """Sizes that change from batch to batch."""
    sizes = np.random.default_rng(0).integers(1, 40, size=60)
    inputs, targets = arrays(100)
    ends = np.cumsum(sizes)
    for begin, end in zip(ends - sizes, ends, strict=True):
        yield inputs[begin:end], targets[begin:end]


def outcome(data, callbacks, steps_per_execution=1, **fit_options):
    """What a user sees of a run: its losses, its weights, or its error."""
    keras.utils.set_random_seed(7)
    model = small_model(steps_per_execution=steps_per_execution)
    try:
        history = model.fit(data(), verbose=0, callbacks=callbacks, **fit_options).history
    except Exception as error:
        history = type(error).__name__
        # Keras calls no hook when a run fails; that is noticed within a second.
        wait_for(lambda: all(callback.summary is not None for callback in callbacks))
    return history, [np.asarray(weight) for weight in model.weights]


HOSTILE = {
    "endless": (lambda: batches().repeat(), {"epochs": 2, "steps_per_epoch": 30}),
    "empty": (lambda: batches().take(0), {}),
    "raises at 50": (raises_at_50, {}),
    "generator raises": (generator_raises, {}),
    "shorter than announced": (batches, {"epochs": 2, "steps_per_epoch": 60}),
    "one batch": (lambda: batches().take(1), {"epochs": 4}),
    "changing sizes": (unbalanced, {}),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("name", "steps_per_execution"),
    [*((name, 1) for name in HOSTILE), ("raises at 50", 8), ("shorter than announced", 8)],
)
def test_the_run_ends_as_without_us(name, steps_per_execution):
    data, options = HOSTILE[name]
    callback = gpukit.InputStall(None)
    bare = outcome(data, [], steps_per_execution, **options)
    watched = outcome(data, [callback], steps_per_execution, **options)
    assert bare[0] == watched[0]
    for one, other in zip(bare[1], watched[1], strict=True):
        np.testing.assert_array_equal(one, other)


def ragged():
    return tf.ragged.constant([[1.0] * (1 + index % 5) for index in range(20 * BATCH)])


def sparse():
    return tf.sparse.from_dense(tf.cast(arrays(20)[0] > 1, tf.float32))


class Total(keras.layers.Layer):
    """Adds up whatever it is given."""

    def call(self, inputs):
        if isinstance(inputs, tf.SparseTensor):
            inputs = tf.sparse.to_dense(inputs)
        return tf.reshape(tf.reduce_sum(inputs, axis=1), [-1, 1])


def total_model(**input_options):
    inputs = keras.Input(**input_options)
    model = keras.Model(inputs, keras.layers.Dense(1)(Total()(inputs)))
    model.compile("sgd", "mse", jit_compile=False)
    return model


@pytest.mark.parametrize("tuned", [lambda data: data, without_autotuning])
@pytest.mark.parametrize(
    ("rows", "shape", "kind"), [(ragged, (None,), "ragged"), (sparse, (FEATURES,), "sparse")]
)
def test_ragged_and_sparse_batches_are_measured(rows, shape, kind, tuned):
    data = tf.data.Dataset.from_tensor_slices((rows(), tf.zeros([20 * BATCH, 1]))).batch(BATCH)
    callback, model = gpukit.InputStall(None), total_model(shape=shape, **{kind: True})
    model.fit(tuned(data), epochs=2, verbose=0, callbacks=[callback])
    assert 0 <= callback.summary.stall_fraction <= 1
    assert callback.summary.measured_steps == 36


def test_a_pipeline_that_others_iterate_too_is_measured_as_ever():
    data = fast_dataset(40)
    others = iter(data)

    class Takes(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            next(others, None)

    callback = gpukit.InputStall(None)
    small_model().fit(data, verbose=0, callbacks=[callback, Takes()])
    assert callback.summary.measured_steps == 38
    assert callback.summary.stall_fraction is not None


def test_a_heart_that_stopped_is_noticed_before_and_after_its_next_beat():
    now_s = 0.0
    heartbeat = Heartbeat(1.0, now=lambda: now_s, process_s=lambda: 0.0)
    for tick_s in (1.0, 2.0, 3.1):
        now_s = tick_s
        heartbeat.beat()
    assert not heartbeat.stopped_since(0.0)
    now_s = 9.0
    assert heartbeat.stopped_since(8.0)
    heartbeat.beat()
    assert heartbeat.stopped_since(3.0)
    assert not heartbeat.stopped_since(9.1)
    # One that waits for the GIL has not stopped.
    waits = Heartbeat(1.0, now=lambda: now_s, process_s=lambda: now_s)
    now_s = 18.0
    assert not waits.stopped_since(0.0)
    waits.beat()
    assert not waits.stopped_since(0.0)
