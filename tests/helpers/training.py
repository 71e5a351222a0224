"""Small models and pipelines whose timing is known from how they are made."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

import keras
import numpy as np
import tensorflow as tf

import keras_gpukit as gpukit
from keras_gpukit.records import METHODS

BATCH = 16
FEATURES = 8


def compiled(
    *layers, shape=(FEATURES,), optimizer="sgd", loss="mse", **compile_options
) -> keras.Sequential:
    """A model of these layers, without XLA, whose compilation takes long."""
    model = keras.Sequential([keras.Input(shape), *layers])
    model.compile(optimizer, loss, **{"jit_compile": False, **compile_options})
    return model


def small_model(**compile_options) -> keras.Model:
    """The model that is traced fastest, for tests about anything but the model."""
    return compiled(keras.layers.Dense(1), **compile_options)


def sensitive_model(**compile_options) -> keras.Model:
    """With a random layer, batch statistics and slots: whatever watching could disturb.

    Each further variable, and Adam, would take its many fits a quarter of a second to trace.
    """
    keras.utils.set_random_seed(7)
    return compiled(
        keras.layers.Dense(16, activation="relu", use_bias=False),
        keras.layers.BatchNormalization(center=False, scale=False),
        keras.layers.Dropout(0.3),
        keras.layers.Dense(1, use_bias=False),
        optimizer=keras.optimizers.SGD(0.01, momentum=0.9),
        **compile_options,
    )


def mirrored_cpus() -> tf.distribute.Strategy:
    """Replicas on two logical CPUs, which it makes: for a process of its own."""
    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
    return tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])


def mirrored_model() -> keras.Model:
    with mirrored_cpus().scope():
        return small_model()


def summary_of(model, *data, callback=None, **fit_options):
    """What a callback measures of a fit; `Monitor`, if none is given."""
    callback = callback or gpukit.Monitor(None, verbose=0)
    model.fit(*data, **{"verbose": 0, "callbacks": [callback], **fit_options})
    return callback.summary


def input_of(data, model=None, **fit_options):
    """What `InputStall` measures of a fit."""
    return summary_of(model or small_model(), data, callback=gpukit.InputStall(None), **fit_options)


def sleep_in_tensorflow(seconds: float):
    """Sleeps in the pipeline, without Python: the GIL would add waits of its own."""
    from tensorflow.python.data.experimental.ops.testing import sleep

    return sleep(int(seconds * 1e6))


class Sleep(keras.layers.Layer):
    """Makes each step take a known time."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self.seconds = seconds

    def call(self, inputs):
        # TensorFlow has no operation that sleeps, but a dataset can, and a step can ask one.
        # It needs the inputs, or it would sleep while the batch is still being fetched.
        needed = tf.data.Dataset.from_tensors(0.0 * tf.reduce_sum(inputs))
        zero = needed.apply(sleep_in_tensorflow(self.seconds))
        return inputs + tf.data.experimental.get_single_element(zero)


def sleeping_model(seconds: float, **compile_options) -> keras.Model:
    """A model whose step takes at least the given time."""
    return compiled(Sleep(seconds), keras.layers.Dense(1), **compile_options)


def arrays(batches: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    inputs = rng.normal(size=(batches * BATCH, FEATURES)).astype("float32")
    return inputs, inputs.sum(axis=1, keepdims=True)


def fast_dataset(batches: int) -> tf.data.Dataset:
    return tf.data.Dataset.from_tensor_slices(arrays(batches)).batch(BATCH).cache()


def slow_dataset(batches: int, seconds: float) -> tf.data.Dataset:
    """Each batch takes the given time to make, one after the other."""
    batched = tf.data.Dataset.from_tensor_slices(arrays(batches)).batch(BATCH)
    return batched.apply(sleep_in_tensorflow(seconds)) if seconds else batched


def without_autotuning(dataset: tf.data.Dataset) -> tf.data.Dataset:
    options = tf.data.Options()
    options.autotune.enabled = False
    return dataset.with_options(options)


class SlowPyDataset(keras.utils.PyDataset):
    """Each batch takes the given time to make."""

    def __init__(self, batches: int, seconds: float, **options) -> None:
        super().__init__(**options)
        self.inputs, self.targets = arrays(batches)
        self.batches, self.seconds = batches, seconds

    def __len__(self) -> int:
        return self.batches

    def __getitem__(self, index: int):
        time.sleep(self.seconds)
        rows = slice(index * BATCH, (index + 1) * BATCH)
        return self.inputs[rows], self.targets[rows]


def slow_generator(batches: int, seconds: float):
    inputs, targets = arrays(batches)
    for index in range(batches):
        time.sleep(seconds)
        rows = slice(index * BATCH, (index + 1) * BATCH)
        yield inputs[rows], targets[rows]


@contextmanager
def keras_restored() -> Iterator[None]:
    """Puts back what scripts' commands wrap in Keras."""
    names = (*METHODS, "compile")
    owners = [next(each for each in keras.Model.__mro__ if name in vars(each)) for name in names]
    places = [(keras.callbacks.CallbackList, "__init__"), *zip(owners, names, strict=True)]
    before = [vars(owner)[name] for owner, name in places]
    try:
        yield
    finally:
        for (owner, name), original in zip(places, before, strict=True):
            setattr(owner, name, original)
