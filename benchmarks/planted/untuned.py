"""Ten slow pipelines of kinds that users write, each with a version written for speed by hand."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np
import tensorflow as tf

SIZE = 64
COUNT = 2048
BATCH = 32
AUTOTUNE = tf.data.AUTOTUNE
Dataset = Any


@dataclass(frozen=True)
class Case:
    """A slow pipeline.

    Attributes:
        name: What is slow about it.
        slow: Makes it as it came.
        by_hand: Makes the version written for speed.
        advised: Makes it with the advice followed, where the fix is advice; given the tuned one.
        arguments: For `tune_input`.
    """

    name: str
    slow: Callable[[], Dataset]
    by_hand: Callable[[], Dataset]
    advised: Callable[[], Dataset] | None = None
    arguments: tuple[tuple[str, Any], ...] = ()


def picture(number: int) -> np.ndarray:
    """Smooth colours, so that a JPEG of it is of an ordinary size."""
    rng = np.random.default_rng(number)
    small = rng.integers(0, 256, (12, 12, 3), dtype=np.uint8)
    return np.asarray(tf.image.resize(small, (160, 160), "bicubic").numpy().clip(0, 255), np.uint8)


class Files:
    """JPEG files, and the same in TFRecord files."""

    def __init__(self, folder: str) -> None:
        self.labels = np.arange(COUNT) % 10
        encoded = [tf.io.encode_jpeg(picture(number % 256)).numpy() for number in range(COUNT)]
        self.images = []
        for number, image in enumerate(encoded):
            self.images.append(os.path.join(folder, f"{number}.jpg"))
            with open(self.images[-1], "wb") as file:
                file.write(image)
        self.records = []
        for shard in range(8):
            self.records.append(os.path.join(folder, f"{shard}.tfrecord"))
            with tf.io.TFRecordWriter(self.records[-1]) as writer:
                for number in range(shard, COUNT, 8):
                    writer.write(self._example(encoded[number], number % 10))

    @staticmethod
    def _example(image: bytes, label: int) -> bytes:
        features = {
            "image": tf.train.Feature(bytes_list=tf.train.BytesList(value=[image])),
            "label": tf.train.Feature(int64_list=tf.train.Int64List(value=[label])),
        }
        example = tf.train.Example(features=tf.train.Features(feature=features))
        return example.SerializeToString()


def decode(image: tf.Tensor, label: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    pixels = tf.io.decode_jpeg(image, channels=3)
    return tf.image.resize(pixels, (SIZE, SIZE)) / 255.0, label


def load(path: tf.Tensor, label: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    return decode(tf.io.read_file(path), label)


def read_one(path: tf.Tensor) -> Dataset:
    return tf.data.Dataset.from_tensors(path).map(tf.io.read_file)


def decode_unlabelled(image: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    return decode(image, tf.constant(0))


def load_unlabelled(path: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    return load(path, tf.constant(0))


def parse(record: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    features = {
        "image": tf.io.FixedLenFeature((), tf.string),
        "label": tf.io.FixedLenFeature((), tf.int64),
    }
    example = tf.io.parse_single_example(record, features)
    return decode(example["image"], example["label"])


def augment(image: tf.Tensor, label: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    image = tf.image.random_flip_left_right(image)
    image = tf.image.random_saturation(image, 0.5, 1.5)
    return tf.image.random_hue(image, 0.1), label


def standardize(image: tf.Tensor, label: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Works on an image and on a batch of them."""
    return (image - 0.45) / 0.225, label


def augment_in_numpy(image: np.ndarray) -> np.ndarray:
    """What users write: flips, shifts, noise."""
    if np.random.rand() < 0.5:
        image = image[:, ::-1]
    image = np.roll(image, np.random.randint(-4, 5), axis=0)
    noise = np.random.normal(0, 0.02, image.shape)
    return np.clip(image + noise, 0, 1).astype("float32")


def flips_in_tensorflow(image: tf.Tensor, label: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    image = tf.image.random_flip_left_right(image)
    image = tf.roll(image, tf.random.uniform((), -4, 5, tf.int32), axis=0)
    image += tf.random.normal(tf.shape(image), stddev=0.02)
    return tf.clip_by_value(image, 0.0, 1.0), label


class Reader(keras.utils.PyDataset):
    """Waits for its storage, as one on a network does, then decodes."""

    def __init__(self, files: Files, **arguments: Any) -> None:
        super().__init__(**arguments)
        self.files = files

    def __len__(self) -> int:
        return COUNT // BATCH

    def __getitem__(self, index: int) -> tuple[np.ndarray, np.ndarray]:
        rows = slice(index * BATCH, (index + 1) * BATCH)
        time.sleep(0.02)
        images = [load(path, 0)[0].numpy() for path in self.files.images[rows]]
        return np.stack(images), self.files.labels[rows]


def parallel(dataset: Dataset, function: Callable[..., Any]) -> Dataset:
    return dataset.map(function, num_parallel_calls=AUTOTUNE)


def batched(dataset: Dataset, calls: int | None = AUTOTUNE) -> Dataset:
    return dataset.batch(BATCH, num_parallel_calls=calls).prefetch(AUTOTUNE)


def cases(files: Files) -> list[Case]:
    slices = tf.data.Dataset.from_tensor_slices
    pixels = np.stack([picture(number)[:SIZE, :SIZE] for number in range(256)]) / np.float32(255)
    labels = np.arange(256) % 10
    small = np.repeat(pixels, 8, axis=0), np.repeat(labels, 8)

    def paths() -> Dataset:
        return slices((files.images, files.labels))

    def generate() -> Any:
        for image, label in zip(pixels, labels, strict=True):
            yield augment_in_numpy(image), label

    def generated() -> Dataset:
        spec = (tf.TensorSpec((SIZE, SIZE, 3), tf.float32), tf.TensorSpec((), tf.int64))
        return tf.data.Dataset.from_generator(generate, output_signature=spec)

    def standardized() -> Dataset:
        return slices(small).batch(BATCH).map(standardize)

    def standardized_in_parallel() -> Dataset:
        batches = slices(small).batch(BATCH, num_parallel_calls=AUTOTUNE)
        return parallel(batches, standardize).prefetch(AUTOTUNE)

    def records(**options: Any) -> Dataset:
        return tf.data.TFRecordDataset(files.records, **options)

    def loaded() -> Dataset:
        return parallel(slices(files.images), load_unlabelled)

    may_cache, no_cache = (("cache", True),), (("cache", False),)
    return [
        Case(
            "JPEG files decoded one by one",
            lambda: paths().shuffle(COUNT).map(load).batch(BATCH),
            lambda: batched(parallel(paths(), load).cache().shuffle(COUNT), None),
            arguments=may_cache,
        ),
        Case(
            "TFRecords read file after file",
            lambda: records().map(parse).shuffle(512).batch(BATCH),
            lambda: batched(
                parallel(records(num_parallel_reads=AUTOTUNE), parse).cache().shuffle(512), None
            ),
            arguments=may_cache,
        ),
        Case(
            "random augmentation in a serial map",
            lambda: slices(small).map(augment).batch(BATCH),
            lambda: batched(parallel(slices(small), augment)),
        ),
        Case(
            "a generator that augments in NumPy",
            lambda: generated().batch(BATCH),
            lambda: batched(parallel(slices((pixels, labels)), flips_in_tensorflow)),
            advised=lambda: slices((pixels, labels)).map(flips_in_tensorflow).batch(BATCH),
        ),
        Case(
            "a PyDataset with one worker",
            lambda: Reader(files),
            lambda: Reader(files, workers=8),
        ),
        Case(
            "batches of two",
            lambda: slices(small).map(standardize).batch(2),
            standardized_in_parallel,
            advised=standardized,
            arguments=no_cache,
        ),
        Case(
            "a map for each element that could take batches",
            lambda: slices(small).map(standardize).batch(BATCH),
            standardized_in_parallel,
            advised=standardized,
            arguments=no_cache,
        ),
        Case(
            "a cache before the decoding",
            lambda: paths().cache().map(load).shuffle(256).map(augment).batch(BATCH),
            lambda: batched(parallel(parallel(paths(), load).cache().shuffle(256), augment), None),
            arguments=may_cache,
        ),
        Case(
            "a shuffle of decoded images",
            lambda: paths().map(load).shuffle(COUNT).map(augment).batch(BATCH),
            lambda: batched(
                parallel(parallel(paths(), load).cache().shuffle(COUNT), augment), None
            ),
            arguments=may_cache,
        ),
        Case(
            "many small files, no room for a cache",
            lambda: (
                slices(files.images)
                .flat_map(read_one)
                .map(decode_unlabelled)
                .map(augment)
                .batch(BATCH)
            ),
            lambda: batched(parallel(loaded(), augment)),
            advised=lambda: loaded().map(augment).batch(BATCH),
            arguments=no_cache,
        ),
    ]
