"""How close `tune_input` brings slow pipelines to the best that can be written by hand.

    python benchmarks/tune_input.py --json benchmarks/results/tune_input.json

Ten pipelines of kinds that users write, each slow for one reason, are tuned; where what helps is
advice only, the advice is followed by hand ("advice" in the column "by"). Beside each stands a
version written for speed by hand, which gives the same elements, and the rate at which a small
convolutional model trains on batches in memory. The goal is nine tenths of the lower of these two.
Rates are read in rounds, the pipelines in turn; what is told is the median of the rounds' ratios,
with its 95 % interval by bootstrap. With `--only` some are measured, and put into the file beside
those that are there.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import numpy as np
import tensorflow as tf
from results_file import save
from rich.console import Console
from rich.table import Table

from keras_gpukit.experiments.sources import endless
from keras_gpukit.experiments.tune_input import tune_input
from keras_gpukit.experiments.tuning.py_dataset import PyDatasetTuning
from keras_gpukit.measuring.held_batches import hold
from keras_gpukit.measuring.rates import compute_rate, rate_of
from keras_gpukit.measuring.untouched import untouched

GOAL = 0.9
SIZE = 64
COUNT = 2048
READ_S = 0.6
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
        advised: Makes it with the advice followed, where the cure is advice; given the tuned one.
        arguments: For `tune_input`.
    """

    name: str
    slow: Callable[[], Dataset]
    by_hand: Callable[[], Dataset]
    advised: Callable[[], Dataset] | None = None
    arguments: tuple[tuple[str, Any], ...] = ()


def build_model() -> keras.Model:
    """Small, so that its rate on two cores is above that of the slow pipelines."""
    layers = keras.layers
    model = keras.Sequential(
        [
            keras.Input((SIZE, SIZE, 3)),
            layers.Conv2D(8, 4, strides=4, activation="relu"),
            layers.GlobalAveragePooling2D(),
            layers.Dense(10),
        ]
    )
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile("sgd", loss, jit_compile=False)
    return model


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


def cases(files: Files) -> list[Case]:
    def paths() -> Dataset:
        return tf.data.Dataset.from_tensor_slices((files.images, files.labels))

    pixels = np.stack([picture(number)[:SIZE, :SIZE] for number in range(256)]) / np.float32(255)
    labels = np.arange(256) % 10

    def generate() -> Any:
        for image, label in zip(pixels, labels, strict=True):
            yield augment_in_numpy(image), label

    signature = (tf.TensorSpec((SIZE, SIZE, 3), tf.float32), tf.TensorSpec((), tf.int64))
    small = np.repeat(pixels, 8, axis=0), np.repeat(labels, 8)

    def standardized() -> Dataset:
        return tf.data.Dataset.from_tensor_slices(small).batch(BATCH).map(standardize)

    def standardized_in_parallel() -> Dataset:
        return (
            tf.data.Dataset.from_tensor_slices(small)
            .batch(BATCH, num_parallel_calls=AUTOTUNE)
            .map(standardize, num_parallel_calls=AUTOTUNE)
            .prefetch(AUTOTUNE)
        )

    may_cache = (("cache", True),)

    return [
        Case(
            "JPEG files decoded one by one",
            lambda: paths().shuffle(COUNT).map(load).batch(BATCH),
            lambda: (
                paths()
                .map(load, num_parallel_calls=AUTOTUNE)
                .cache()
                .shuffle(COUNT)
                .batch(BATCH)
                .prefetch(AUTOTUNE)
            ),
            arguments=may_cache,
        ),
        Case(
            "TFRecords read file after file",
            lambda: tf.data.TFRecordDataset(files.records).map(parse).shuffle(512).batch(BATCH),
            lambda: (
                tf.data.TFRecordDataset(files.records, num_parallel_reads=AUTOTUNE)
                .map(parse, num_parallel_calls=AUTOTUNE)
                .cache()
                .shuffle(512)
                .batch(BATCH)
                .prefetch(AUTOTUNE)
            ),
            arguments=may_cache,
        ),
        Case(
            "random augmentation in a serial map",
            lambda: tf.data.Dataset.from_tensor_slices(small).map(augment).batch(BATCH),
            lambda: (
                tf.data.Dataset.from_tensor_slices(small)
                .map(augment, num_parallel_calls=AUTOTUNE)
                .batch(BATCH, num_parallel_calls=AUTOTUNE)
                .prefetch(AUTOTUNE)
            ),
        ),
        Case(
            "a generator that augments in NumPy",
            lambda: tf.data.Dataset.from_generator(generate, output_signature=signature).batch(
                BATCH
            ),
            lambda: (
                tf.data.Dataset.from_tensor_slices((pixels, labels))
                .map(flips_in_tensorflow, num_parallel_calls=AUTOTUNE)
                .batch(BATCH, num_parallel_calls=AUTOTUNE)
                .prefetch(AUTOTUNE)
            ),
            advised=lambda: (
                tf.data.Dataset.from_tensor_slices((pixels, labels))
                .map(flips_in_tensorflow)
                .batch(BATCH)
            ),
        ),
        Case(
            "a PyDataset with one worker",
            lambda: Reader(files),
            lambda: Reader(files, workers=8),
        ),
        Case(
            "batches of two",
            lambda: tf.data.Dataset.from_tensor_slices(small).map(standardize).batch(2),
            standardized_in_parallel,
            advised=standardized,
            arguments=(("cache", False),),
        ),
        Case(
            "a map for each element that could take batches",
            lambda: tf.data.Dataset.from_tensor_slices(small).map(standardize).batch(BATCH),
            standardized_in_parallel,
            advised=standardized,
            arguments=(("cache", False),),
        ),
        Case(
            "a cache before the decoding",
            lambda: paths().cache().map(load).shuffle(256).map(augment).batch(BATCH),
            lambda: (
                paths()
                .map(load, num_parallel_calls=AUTOTUNE)
                .cache()
                .shuffle(256)
                .map(augment, num_parallel_calls=AUTOTUNE)
                .batch(BATCH)
                .prefetch(AUTOTUNE)
            ),
            arguments=may_cache,
        ),
        Case(
            "a shuffle of decoded images",
            lambda: paths().map(load).shuffle(COUNT).map(augment).batch(BATCH),
            lambda: (
                paths()
                .map(load, num_parallel_calls=AUTOTUNE)
                .cache()
                .shuffle(COUNT)
                .map(augment, num_parallel_calls=AUTOTUNE)
                .batch(BATCH)
                .prefetch(AUTOTUNE)
            ),
            arguments=may_cache,
        ),
        Case(
            "many small files, no room for a cache",
            lambda: (
                tf.data.Dataset.from_tensor_slices(files.images)
                .flat_map(read_one)
                .map(decode_unlabelled)
                .map(augment)
                .batch(BATCH)
            ),
            lambda: (
                tf.data.Dataset.from_tensor_slices(files.images)
                .map(load_unlabelled, num_parallel_calls=AUTOTUNE)
                .map(augment, num_parallel_calls=AUTOTUNE)
                .batch(BATCH, num_parallel_calls=AUTOTUNE)
                .prefetch(AUTOTUNE)
            ),
            advised=lambda: (
                tf.data.Dataset.from_tensor_slices(files.images)
                .map(load_unlabelled, num_parallel_calls=AUTOTUNE)
                .map(augment)
                .batch(BATCH)
            ),
            arguments=(("cache", False),),
        ),
    ]


def reader(dataset: Dataset) -> Callable[[], float]:
    """Returns what reads examples a second, once the first epoch has filled caches."""
    if isinstance(dataset, keras.utils.PyDataset):
        batches_per_s = PyDatasetTuning(dataset, READ_S, processes=False).read(dataset)
        return lambda: BATCH * batches_per_s()
    for _, labels in dataset:
        examples = int(labels.shape[0])  # in every batch: all counts are multiples of a batch's
    repeated = endless(dataset)

    def read() -> float:
        # Anew each time, as fit does for an epoch: one that is left to wait makes batches ahead
        # while others are read, twice as many each time.
        iterator = iter(repeated)
        return examples * rate_of(lambda: next(iterator), 2 * READ_S, settling=0.5)

    return read


def median_interval(values: list[float]) -> tuple[float, float]:
    """95 % interval of the median, by bootstrap."""
    draw = random.Random(0)
    medians = sorted(statistics.median(draw.choices(values, k=len(values))) for _ in range(2000))
    return medians[50], medians[1949]


def ceiling(model: keras.Model, dataset: Dataset) -> float:
    """Examples a second that the model trains on when they are in memory."""
    batches = endless(dataset)
    with untouched(model):
        held = hold(iter(batches), batches.element_spec)
        return BATCH * compute_rate(model, held, seconds=4).median


def measure(case: Case, compute: float, seconds: float, rounds: int) -> dict[str, Any]:
    begun_with = case.slow if case.advised is None else case.advised
    tuned = tune_input(begun_with(), seconds=seconds, verbose=False, **dict(case.arguments))
    print(tuned, flush=True)
    reads = {
        "slow": reader(case.slow()),
        "tuned": reader(tuned.dataset),
        "by hand": reader(case.by_hand()),
    }
    rates: dict[str, list[float]] = {name: [] for name in reads}
    for number in range(rounds):
        for name in random.Random(number).sample(sorted(reads), len(reads)):
            rates[name].append(reads[name]())
    goals = [min(rate, compute) for rate in rates["by hand"]]
    shares = [rate / goal for rate, goal in zip(rates["tuned"], goals, strict=True)]
    low, high = median_interval(shares)
    return {
        "by": "tune_input" if case.advised is None else "advice, then tune_input",
        "seconds": seconds,
        "rounds": rounds,
        "slow_examples_per_s": statistics.median(rates["slow"]),
        "tuned_examples_per_s": statistics.median(rates["tuned"]),
        "by_hand_examples_per_s": statistics.median(rates["by hand"]),
        "compute_examples_per_s": compute,
        "share_of_goal": statistics.median(shares),
        "share_low": low,
        "share_high": high,
        "share_of_by_hand": statistics.median(
            rate / best for rate, best in zip(rates["tuned"], rates["by hand"], strict=True)
        ),
        "kept": [trial.description for trial in tuned.trials if trial.kept],
        "tuning_s": tuned.record.duration_s,
    }


def show(rows: dict[str, Any]) -> None:
    table = Table(title="examples/s; goal: the lower of by hand and the model alone")
    rates = ("slow", "tuned", "by hand", "compute")
    headings = ("pipeline", "by", *rates, "of goal", "95 %", "of by hand")
    for heading in headings:
        table.add_column(heading)
    for name, row in rows.items():
        table.add_row(
            name,
            row["by"],
            *(
                f"{row[f'{each}_examples_per_s']:,.0f}"
                for each in ("slow", "tuned", "by_hand", "compute")
            ),
            f"{row['share_of_goal']:.2f}",
            f"{row['share_low']:.2f} to {row['share_high']:.2f}",
            f"{row['share_of_by_hand']:.2f}",
        )
    console = Console(width=140)
    console.print(table)
    reached = sum(row["share_of_goal"] >= GOAL for row in rows.values())
    console.print(f"{reached} of {len(rows)} reach {GOAL:.0%} of their goal.")


def main() -> int:
    parser = argparse.ArgumentParser(description="How close tune_input comes to the best by hand.")
    parser.add_argument("--seconds", type=float, default=60, help="for each tuning")
    parser.add_argument("--rounds", type=int, default=18)
    parser.add_argument("--only", type=int, nargs="+", help="numbers of pipelines, from 1")
    parser.add_argument("--json", help="where the figures are written")
    arguments = parser.parse_args()

    rows: dict[str, Any] = {}
    if arguments.json and arguments.only and os.path.exists(arguments.json):
        with open(arguments.json) as file:
            rows = json.load(file)["pipelines"]
    with tempfile.TemporaryDirectory() as folder:
        files = Files(folder)
        every = cases(files)
        compute = ceiling(build_model(), every[0].by_hand())
        for number, case in enumerate(every, 1):
            if not arguments.only or number in arguments.only:
                rows[case.name] = measure(case, compute, arguments.seconds, arguments.rounds)
    rows = {case.name: rows[case.name] for case in every if case.name in rows}
    show(rows)
    if arguments.json:
        save(arguments.json, __file__, pipelines=rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
