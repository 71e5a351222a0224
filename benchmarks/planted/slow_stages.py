"""Pipelines with one slow stage, and pipelines with none."""

from __future__ import annotations

import functools
import gzip
import itertools
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np
import tensorflow as tf

FEATURES = 8
BATCH = 16
STEPS = 100

Data = tf.data.Dataset


# What pipelines are made of. Names are what is looked for, so each case has its own.


def sleep_then(x: tf.Tensor, seconds: float) -> tf.Tensor:
    """Sleeps in TensorFlow, not in Python, so that neither the interpreter nor a core is held."""
    from tensorflow.python.data.experimental.ops.testing import sleep

    slept = Data.from_tensors(x).apply(sleep(int(seconds * 1e6)))
    return tf.data.experimental.get_single_element(slept)


def sort_then(x: tf.Tensor, numbers: int = 40_000) -> tf.Tensor:
    """Computes on one core: some milliseconds."""
    noise = tf.math.floormod(tf.range(numbers, dtype=tf.float32) * 7919.0, 104729.0)
    first = tf.reshape(x, [-1])[0]
    return x + 0.0 * tf.sort(noise + first)[0]


def to_features(x: tf.Tensor) -> tf.Tensor:
    return tf.fill([FEATURES], tf.cast(x, tf.float32) * 1e-6)


def to_pair(x: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """A batch as the model takes it."""
    rows = tf.reshape(tf.cast(x, tf.float32), [tf.shape(x)[0], -1])[:, :FEATURES]
    rows = tf.ensure_shape(rows, [None, FEATURES])
    return rows, tf.reduce_sum(rows, axis=1, keepdims=True)


def examples(number: int = 10**9) -> tf.data.Dataset:
    return Data.range(number).map(to_features, num_parallel_calls=2)


def trained_on(elements: tf.data.Dataset, batch: int = BATCH) -> tf.data.Dataset:
    return elements.batch(batch).map(to_pair).prefetch(2)


# Pipelines with one slow stage.


def decoding(folder: str) -> tf.data.Dataset:
    image = np.random.default_rng(0).integers(0, 255, (160, 160, 3)).astype("uint8")
    encoded = tf.io.encode_jpeg(image).numpy()

    def decode_image(number: tf.Tensor, file: tf.Tensor) -> tf.Tensor:
        pixels = tf.cast(tf.io.decode_jpeg(file, channels=3), tf.float32)
        return tf.reshape(pixels, [-1])[:FEATURES] / 255 + 0.0 * tf.cast(number, tf.float32)

    files = Data.zip((Data.range(10**9), Data.from_tensors(encoded).repeat()))
    return trained_on(files.shuffle(64).map(decode_image, num_parallel_calls=2))


def reading_compressed_records(folder: str) -> tf.data.Dataset:
    path = os.path.join(folder, "records")
    numbers = np.random.default_rng(0).integers(0, 9, 20_000).astype("float32").tobytes()
    with tf.io.TFRecordWriter(path, "GZIP") as writer:
        for _ in range(400):
            writer.write(numbers)

    def first_numbers(record: tf.Tensor) -> tf.Tensor:
        piece = tf.strings.substr(record, 0, 4 * FEATURES)
        return tf.ensure_shape(tf.io.decode_raw(piece, tf.float32), [FEATURES])

    records = tf.data.TFRecordDataset([path] * 1000, "GZIP")
    return trained_on(records.map(first_numbers))


def reading_text(folder: str) -> tf.data.Dataset:
    path = os.path.join(folder, "text.gz")
    with gzip.open(path, "wt") as file:
        for _ in range(400):
            file.write(" ".join(map(str, range(20_000))) + "\n")
    lines = tf.data.TextLineDataset([path] * 1000, "GZIP")
    return trained_on(lines.map(tf.strings.length).map(to_features))


def shuffling(folder: str) -> tf.data.Dataset:
    # Of thousands that are shuffled one is kept, which costs next to nothing.
    kept = Data.range(10**9).shuffle(1_000_000).shard(1024, 0)
    return trained_on(kept.map(to_features))


def batching(folder: str) -> tf.data.Dataset:
    image = tf.zeros([512, 512])
    return trained_on(Data.from_tensors(image).repeat().map(tf.identity), batch=64)


def padding(folder: str) -> tf.data.Dataset:
    lengths = tf.constant([100_000, 400_000, 200_000])
    rows = Data.from_tensor_slices(lengths).map(lambda n: tf.zeros([n])).cache().repeat()
    return rows.padded_batch(32).map(to_pair).prefetch(2)


def filtering(folder: str) -> tf.data.Dataset:
    def is_wanted(x: tf.Tensor) -> tf.Tensor:
        return sort_then(x, 10_000)[0] > -1.0

    return trained_on(examples().filter(is_wanted))


def generator(folder: str) -> tf.data.Dataset:
    def slow_rows() -> Iterator[np.ndarray]:
        while True:
            time.sleep(0.001)
            yield np.ones(FEATURES, "float32")

    signature = tf.TensorSpec([FEATURES], tf.float32)
    return trained_on(Data.from_generator(slow_rows, output_signature=signature))


def python_function(folder: str) -> tf.data.Dataset:
    def look_up(x: np.ndarray) -> np.ndarray:
        time.sleep(0.001)
        return x

    def by_python(x: tf.Tensor) -> tf.Tensor:
        return tf.ensure_shape(tf.py_function(look_up, [x], tf.float32), [FEATURES])

    return trained_on(examples().map(by_python, num_parallel_calls=2))


def interleaving(folder: str) -> tf.data.Dataset:
    def open_shard(number: tf.Tensor) -> tf.data.Dataset:
        opened = sleep_then(number, 0.02)
        return Data.from_tensors(opened).repeat(8)

    shards = Data.range(10**9).interleave(open_shard, cycle_length=2, num_parallel_calls=2)
    return trained_on(shards.map(to_features))


def flat_mapping(folder: str) -> tf.data.Dataset:
    def parse_line(x: tf.Tensor) -> tf.Tensor:
        return sleep_then(x, 0.001)

    def lines_of(number: tf.Tensor) -> tf.data.Dataset:
        return Data.range(1000).map(parse_line)

    return trained_on(Data.range(10**9).flat_map(lines_of).map(to_features).shuffle(32))


def nested_in_interleave(folder: str) -> tf.data.Dataset:
    paths = [os.path.join(folder, f"shard{number}") for number in range(4)]
    for path in paths:
        with tf.io.TFRecordWriter(path) as writer:
            for _ in range(200):
                writer.write(np.ones(FEATURES, "float32").tobytes())

    def parse_record(record: tf.Tensor) -> tf.Tensor:
        numbers = tf.io.decode_raw(record, tf.float32)
        return tf.ensure_shape(sort_then(numbers, 20_000), [FEATURES])

    def records_of(path: tf.Tensor) -> tf.data.Dataset:
        return tf.data.TFRecordDataset(path).map(parse_record)

    files = Data.from_tensor_slices(paths).repeat().shuffle(4)
    return trained_on(files.interleave(records_of, cycle_length=2, num_parallel_calls=2))


def grouping(folder: str) -> tf.data.Dataset:
    def by_length(x: tf.Tensor) -> tf.Tensor:
        return tf.cast(x[0] * 1e6, tf.int64) % 2

    def augment(x: tf.Tensor) -> tf.Tensor:
        return sleep_then(x, 0.001)

    def one_group(key: tf.Tensor, group: tf.data.Dataset) -> tf.data.Dataset:
        return group.map(augment).batch(BATCH)

    grouped = examples().group_by_window(by_length, one_group, window_size=BATCH)
    return grouped.map(to_pair).prefetch(2)


def filling_a_cache(folder: str) -> tf.data.Dataset:
    def prepare(x: tf.Tensor) -> tf.Tensor:
        return sort_then(x, 20_000)

    return trained_on(examples(10**5).map(prepare).cache().shuffle(32))


def one_branch_of_a_zip(folder: str) -> tf.data.Dataset:
    def make_label(x: tf.Tensor) -> tf.Tensor:
        return sleep_then(tf.cast(x, tf.float32)[None], 0.001)

    labels = Data.range(10**9).map(make_label)
    pairs = Data.zip((examples().shuffle(32), labels))
    return pairs.batch(BATCH).prefetch(2)


def one_of_sampled(folder: str) -> tf.data.Dataset:
    def rare_kind(x: tf.Tensor) -> tf.Tensor:
        return sleep_then(x, 0.002)

    rare = examples().map(rare_kind)
    return trained_on(Data.sample_from_datasets([examples(), rare], [0.5, 0.5], seed=0))


def repeating(folder: str) -> tf.data.Dataset:
    def resize(x: tf.Tensor) -> tf.Tensor:
        return sort_then(x, 20_000)

    return trained_on(examples(64).map(resize).repeat())


def scanning(folder: str) -> tf.data.Dataset:
    def running_mean(state: tf.Tensor, x: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        mean = sort_then(0.9 * state + 0.1 * x, 10_000)
        return mean, mean

    return trained_on(examples().scan(tf.zeros([FEATURES]), running_mean))


def named_lambda(folder: str) -> tf.data.Dataset:
    slow = functools.partial(sleep_then, seconds=0.004)
    return examples().batch(BATCH).map(lambda x: slow(x), name="augmentation").map(to_pair)


def mapping_before_batch(folder: str) -> tf.data.Dataset:
    def normalize(x: tf.Tensor) -> tf.Tensor:
        return sort_then(x, 20_000)

    return examples().shuffle(32).map(normalize, num_parallel_calls=2).batch(BATCH).map(to_pair)


def slow_source_of_an_interleave(folder: str) -> tf.data.Dataset:
    def find_files() -> Iterator[int]:
        for number in itertools.count():
            time.sleep(0.005)
            yield number

    def open_file(number: tf.Tensor) -> tf.data.Dataset:
        return Data.from_tensors(number).repeat(4)

    files = Data.from_generator(find_files, output_signature=tf.TensorSpec([], tf.int64))
    opened = files.interleave(open_file, cycle_length=4, num_parallel_calls=2)
    return trained_on(opened.map(to_features))


def one_element_of_each(folder: str) -> tf.data.Dataset:
    def load_one(x: tf.Tensor) -> tf.Tensor:
        return sleep_then(x, 0.002)

    def as_dataset(x: tf.Tensor) -> tf.data.Dataset:
        return Data.from_tensors(x).map(load_one)

    return trained_on(Data.range(10**9).flat_map(as_dataset).map(to_features))


def windows(folder: str) -> tf.data.Dataset:
    def blur(x: tf.Tensor) -> tf.Tensor:
        return sleep_then(x, 0.001)

    def joined(window: tf.data.Dataset) -> tf.data.Dataset:
        return window.map(blur).batch(BATCH)

    return examples().window(BATCH).flat_map(joined).map(to_pair).prefetch(2)


def two_slow_ones(folder: str) -> tf.data.Dataset:
    """As dear as each other, but one of them works in two threads."""

    def alone(x: tf.Tensor) -> tf.Tensor:
        return sort_then(x, 20_000)[0] > -1.0

    def in_parallel(x: tf.Tensor) -> tf.Tensor:
        return sort_then(x, 20_000)

    return trained_on(examples().filter(alone).map(in_parallel, num_parallel_calls=2))


def tiny_functions(folder: str) -> tf.data.Dataset:
    """Calling the function takes longer than what it does."""

    def double(x: tf.Tensor) -> tf.Tensor:
        return 2.0 * x

    small = tf.data.Dataset.from_tensors(tf.ones([FEATURES])).repeat().shuffle(32)
    batches = small.map(double, num_parallel_calls=2).batch(2048)
    return batches.map(lambda x: to_pair(x[:BATCH])).prefetch(2)


class SlowFiles(keras.utils.PyDataset):
    def __len__(self) -> int:
        return STEPS

    def __getitem__(self, index: int) -> tuple[np.ndarray, np.ndarray]:
        time.sleep(0.01)
        return np.ones((BATCH, FEATURES), "float32"), np.ones((BATCH, 1), "float32")


# Pipelines that training does not wait for.


def evenly_cheap(folder: str) -> tf.data.Dataset:
    return trained_on(examples().shuffle(64))


def hidden_behind_the_step(folder: str) -> tf.data.Dataset:
    return examples().batch(BATCH).map(lambda x: sleep_then(x, 0.01)).map(to_pair).prefetch(2)


def from_a_cache(folder: str) -> tf.data.Dataset:
    return trained_on(examples(512).cache().repeat())


def cheap_generator(folder: str) -> tf.data.Dataset:
    def rows() -> Iterator[np.ndarray]:
        while True:
            yield np.ones(FEATURES, "float32")

    signature = tf.TensorSpec([FEATURES], tf.float32)
    return trained_on(Data.from_generator(rows, output_signature=signature))


def arrays(folder: str) -> np.ndarray:
    return np.ones((BATCH * STEPS, FEATURES), "float32")


@dataclass(frozen=True)
class Case:
    """A pipeline, and the stage that it is made slow by; None where it is not."""

    name: str
    make: Callable[[str], Any]
    slow_stage: str | None = None


CASES = [
    Case("decode", decoding, "decode_image"),
    Case("read compressed records", reading_compressed_records, "TFRecordDataset"),
    Case("read compressed text", reading_text, "TextLineDataset"),
    Case("shuffle", shuffling, "shuffle"),
    Case("batch", batching, "batch"),
    Case("padded_batch", padding, "padded_batch"),
    Case("filter", filtering, "is_wanted"),
    Case("generator", generator, "slow_rows"),
    Case("py_function", python_function, "by_python"),
    Case("interleave", interleaving, "open_shard"),
    Case("flat_map over a dataset", flat_mapping, "parse_line"),
    Case("interleave over a dataset", nested_in_interleave, "parse_record"),
    Case("group_by_window", grouping, "augment"),
    Case("filling a cache", filling_a_cache, "prepare"),
    Case("a branch of zip", one_branch_of_a_zip, "make_label"),
    Case("one of sample_from_datasets", one_of_sampled, "rare_kind"),
    Case("repeat", repeating, "resize"),
    Case("scan", scanning, "running_mean"),
    Case("map with a name", named_lambda, "augmentation"),
    Case("PyDataset", lambda folder: SlowFiles(), "SlowFiles.__getitem__"),
    Case("map and batch", mapping_before_batch, "normalize"),
    Case("slow source of an interleave", slow_source_of_an_interleave, "find_files"),
    Case("one element of each dataset", one_element_of_each, "load_one"),
    Case("window", windows, "blur"),
    Case("two slow stages", two_slow_ones, "alone"),
    Case("tiny functions", tiny_functions, "double"),
    Case("evenly cheap", evenly_cheap),
    Case("hidden behind the step", hidden_behind_the_step),
    Case("from a cache", from_a_cache),
    Case("cheap generator", cheap_generator),
    Case("arrays", arrays),
]
