"""Pipelines with one planted bottleneck each, for a model with steps of a few milliseconds."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

BATCH, FEATURES, BATCHES = 64, 256, 48
CONTENDED = {"burns all cores": "all cores busy", "holds the lock": "interpreter lock"}


def arrays() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    inputs = rng.normal(size=(BATCHES * BATCH, FEATURES)).astype("float32")
    return inputs, inputs.mean(axis=1, keepdims=True)


def batches() -> tf.data.Dataset:
    return tf.data.Dataset.from_tensor_slices(arrays()).batch(BATCH, drop_remainder=True)


def burn(inputs: tf.Tensor, targets: tf.Tensor, rounds: int) -> tuple[tf.Tensor, tf.Tensor]:
    """Keeps one core busy, and changes nothing."""
    spent = tf.reduce_sum(inputs)
    for _ in range(rounds):
        spent += tf.reduce_sum(tf.sort(inputs + spent * 1e-20, axis=-1))
    return inputs + 0.0 * spent, targets


def sleeping() -> tf.data.Dataset:
    from tensorflow.python.data.experimental.ops.testing import sleep

    return batches().apply(sleep(12_000))


def no_prefetch() -> tf.data.Dataset:
    options = tf.data.Options()
    options.autotune.enabled = False
    return sleeping().with_options(options)


def jpeg() -> tf.data.Dataset:
    rng = np.random.default_rng(0)
    images = rng.integers(0, 255, size=(BATCHES * BATCH, 48, 48, 3), dtype="uint8")
    encoded = tf.constant([tf.io.encode_jpeg(image).numpy() for image in images])

    def load(image: tf.Tensor, target: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        pixels = tf.io.decode_jpeg(image, channels=1)
        return tf.reshape(tf.image.resize(pixels, (16, 16)), (FEATURES,)) / 255.0, target

    pairs = tf.data.Dataset.from_tensor_slices((encoded, arrays()[1]))
    return pairs.map(load).batch(BATCH, drop_remainder=True)


def sequential_map() -> tf.data.Dataset:
    return batches().map(lambda inputs, targets: burn(inputs, targets, 12))


def map_before_batch() -> tf.data.Dataset:
    def one(inputs: tf.Tensor, target: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        return burn(inputs, target, 8)

    return tf.data.Dataset.from_tensor_slices(arrays()).map(one).batch(BATCH, drop_remainder=True)


def gzip_records() -> tf.data.Dataset:
    path = Path(tempfile.gettempdir()) / f"gpukit-records-{os.getpid()}.gz"
    inputs, targets = arrays()
    with tf.io.TFRecordWriter(str(path), "GZIP") as writer:
        for values, target in zip(inputs, targets, strict=True):
            floats = {"x": values.tolist(), "y": target.tolist()}
            features = {
                name: tf.train.Feature(float_list=tf.train.FloatList(value=value))
                for name, value in floats.items()
            }
            example = tf.train.Example(features=tf.train.Features(feature=features))
            writer.write(example.SerializeToString())
    spec = {
        "x": tf.io.FixedLenFeature([FEATURES], tf.float32),
        "y": tf.io.FixedLenFeature([1], tf.float32),
    }

    def parse(record: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        parsed = tf.io.parse_single_example(record, spec)
        return parsed["x"], parsed["y"]

    records = tf.data.TFRecordDataset(str(path), "GZIP")
    return records.map(parse).batch(BATCH, drop_remainder=True)


def in_numpy(work: Callable[[np.ndarray], None]) -> tf.data.Dataset:
    def change(inputs: np.ndarray) -> np.ndarray:
        work(inputs)
        return inputs

    def call(inputs: tf.Tensor, targets: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        changed = tf.numpy_function(change, [inputs], tf.float32)
        return tf.ensure_shape(changed, inputs.shape), targets

    return batches().map(call)


def numpy_sleeping() -> tf.data.Dataset:
    return in_numpy(lambda inputs: time.sleep(0.012))


def numpy_working() -> tf.data.Dataset:
    def work(inputs: np.ndarray) -> None:
        for _ in range(25):
            np.sort(inputs, axis=1)

    return in_numpy(work)


def burn_python(seconds: float) -> None:
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        sum(range(200))


def python_generator() -> tf.data.Dataset:
    inputs, targets = arrays()

    def generate():
        for first in range(0, len(inputs), BATCH):
            time.sleep(0.012)
            yield inputs[first : first + BATCH], targets[first : first + BATCH]

    shapes = (tf.TensorSpec((BATCH, FEATURES)), tf.TensorSpec((BATCH, 1)))
    return tf.data.Dataset.from_generator(generate, output_signature=shapes)


class Sleeping(keras.utils.PyDataset):
    def __init__(self, **options) -> None:
        super().__init__(**options)
        self.inputs, self.targets = arrays()

    def __len__(self) -> int:
        return BATCHES

    def __getitem__(self, index: int):
        time.sleep(0.012)
        rows = slice(index * BATCH, (index + 1) * BATCH)
        return self.inputs[rows], self.targets[rows]


def burns_all_cores() -> tf.data.Dataset:
    return batches().map(
        lambda inputs, targets: burn(inputs, targets, 6), num_parallel_calls=os.cpu_count()
    )


def holds_the_lock() -> tf.data.Dataset:
    return in_numpy(lambda inputs: burn_python(0.005)).prefetch(4)


PIPELINES: dict[str, Callable[[], tf.data.Dataset | keras.utils.PyDataset]] = {
    "slow storage": sleeping,
    "no prefetch": no_prefetch,
    "JPEG": jpeg,
    "sequential map": sequential_map,
    "map before batch": map_before_batch,
    "gzip records": gzip_records,
    "NumPy waiting": numpy_sleeping,
    "NumPy": numpy_working,
    "generator": python_generator,
    "PyDataset": Sleeping,
    "burns all cores": burns_all_cores,
    "holds the lock": holds_the_lock,
}
