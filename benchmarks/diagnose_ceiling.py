"""How well `diagnose` predicts: the ceiling it names against the gain that is really reached.

    python benchmarks/diagnose_ceiling.py --json benchmarks/results/diagnose_ceiling.json

Each pipeline has one planted cause. `diagnose` looks at it; between its rounds, `fit` is timed by a
callback of this file's own, with the cause and without it in turns: it is removed by hand, by
having the very same batches in memory. Predicted and reached gain are compared. Two pipelines hold
training up by more than their slowness, one by burning all cores and one by holding the
interpreter's lock: that must be recognised.

Between the rounds, since a machine's speed drifts by a tenth and more within a minute: what is
gained by removing a wait is really another gain a minute later.

Other programs make both estimates worse: `others` says how many cores they took meanwhile.

`--only NAME ...` measures some pipelines alone, and adds them to the file.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import statistics
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from unittest import mock

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import numpy as np
import tensorflow as tf
from results_file import save
from rich.console import Console
from rich.table import Table

import keras_gpukit.experiments.diagnose as experiment
from keras_gpukit.experiments.diagnosing.turns import REST_S, Tell
from keras_gpukit.measuring.processor_time import (
    busy_cpu_s,
    own_cpu_s,
    wait_until_quiet,
)
from keras_gpukit.records.diagnosis import Diagnosis

BATCH, FEATURES, BATCHES = 64, 256, 48
WITHIN = 0.10
FIT_S = 0.4
CONTENDED = {"burns all cores": "all cores busy", "holds the lock": "interpreter lock"}


def build_model() -> keras.Model:
    """A step of a few milliseconds on two cores."""
    layers = [keras.layers.Dense(768, activation="relu") for _ in range(3)]
    model = keras.Sequential([keras.Input((FEATURES,)), *layers, keras.layers.Dense(1)])
    model.compile("sgd", "mse", jit_compile=False)
    return model


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
    path = Path("/tmp") / f"gpukit-records-{os.getpid()}.gz"
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


def in_memory(dataset: tf.data.Dataset | keras.utils.PyDataset) -> tf.data.Dataset:
    """The same batches with nothing left to do."""
    if isinstance(dataset, keras.utils.PyDataset):
        dataset = batches()
    cached = dataset.cache()
    for _ in cached:
        pass
    return cached.repeat().prefetch(tf.data.AUTOTUNE)


class Pace(keras.callbacks.Callback):
    """Times the steps of a `fit` and ends it.

    By where they begin: Keras would convert its logs for a callback that is called at their end,
    which slows the steps down.
    """

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self.seconds = seconds
        self.begins: list[float] = []

    def on_train_batch_begin(self, batch, logs=None) -> None:
        self.begins.append(time.perf_counter())
        if self.begins[-1] - self.begins[0] > self.seconds and len(self.settled) >= 5:
            self.model.stop_training = True

    @property
    def settled(self) -> list[float]:
        return [begin for begin in self.begins if begin - self.begins[0] >= 0.3 * self.seconds]

    @property
    def rate(self) -> float:
        return (len(self.settled) - 1) / (self.settled[-1] - self.settled[0])


def fit_rate(model: keras.Model, dataset, seconds: float) -> float:
    pace = Pace(seconds)
    model.fit(dataset, epochs=1000, verbose=0, callbacks=[pace])
    return pace.rate


class Trainings:
    """Times `fit` with the planted cause and without it, in turns."""

    def __init__(self, planted: tf.data.Dataset | keras.utils.PyDataset, pairs: int) -> None:
        self.with_it: list[float] = []
        self.without: list[float] = []
        self.spent_s = 0.0
        self._pairs = pairs
        self._model, self._removed = build_model(), in_memory(planted)
        self._planted = planted.repeat() if isinstance(planted, tf.data.Dataset) else planted
        fit_rate(self._model, self._removed, 0.5)

    def run(self) -> None:
        began = time.perf_counter()
        wait_until_quiet(REST_S)  # buffers of the pipeline that is being diagnosed
        for _ in range(self._pairs):
            self.with_it.append(fit_rate(self._model, self._planted, FIT_S))
            self.without.append(fit_rate(self._model, self._removed, FIT_S))
        # An iterator can take seconds to be freed; not while `diagnose` measures.
        gc.collect()
        self.spent_s += time.perf_counter() - began


def diagnose_between(trainings: Trainings, planted, seconds: float) -> Diagnosis:
    """`diagnose`, with trainings where it would draw its progress; their time does not count."""

    def tell(what: str, done: float) -> None:
        if what.startswith("round"):
            trainings.run()

    def progress(shown: bool) -> AbstractContextManager[Tell]:
        return nullcontext(tell)

    with mock.patch.object(experiment, "_progress", progress):
        diagnosis = experiment.diagnose(build_model(), planted, seconds=seconds, verbose=False)
    spent_s = diagnosis.spent_s - trainings.spent_s
    trainings.run()
    return replace(diagnosis, spent_s=spent_s)


def measure(name: str, seconds: float, pairs: int) -> dict:
    began, busy_s, own_s = time.perf_counter(), busy_cpu_s(), own_cpu_s()
    planted = PIPELINES[name]()
    trainings = Trainings(planted, pairs)
    diagnosis = diagnose_between(trainings, planted, seconds)
    with_it, without = trainings.with_it, trainings.without
    reached = statistics.median(a / b for a, b in zip(without, with_it, strict=True))
    ceiling, contention = diagnosis.ceiling_interval, diagnosis.contention
    cause = contention.cause if contention else None
    others_s = (busy_cpu_s() - busy_s) - (own_cpu_s() - own_s)
    return {
        "data_only": diagnosis.data_only.median,
        "compute_only": diagnosis.compute_only.median,
        "actual": diagnosis.actual.median,
        "predicted": ceiling.median,
        "predicted_low": ceiling.low,
        "predicted_high": ceiling.high,
        "told": diagnosis.ceiling_gain is not None,
        "fit_with": statistics.median(with_it),
        "fit_without": statistics.median(without),
        "reached": reached,
        "error": ceiling.median / reached - 1,
        "shortfall": contention.shortfall.median if contention else None,
        "cause": cause,
        "cores_busy_fraction": statistics.median(
            each.cores_busy_fraction for each in diagnosis.rounds
        ),
        "interpreter_delay_ms": 1e3
        * statistics.median(each.gil_wait_s for each in diagnosis.rounds),
        "recognised": name not in CONTENDED or cause == CONTENDED[name],
        "rounds": len(diagnosis.rounds),
        "spent_s": diagnosis.spent_s,
        "others_cores": others_s / (time.perf_counter() - began),
    }


def tabulate(rows: dict[str, dict]) -> Table:
    table = Table(title=f"two estimates of the gain, within {WITHIN:.0%} or not")
    headings = ("pipeline", "data", "compute", "together", "predicted", "reached", "error")
    for heading in (*headings, "short", "cause", "busy", "late ms", "others"):
        table.add_column(heading)
    for name, row in rows.items():
        short = row["shortfall"]
        table.add_row(
            name,
            *(f"{row[key]:.0f}" for key in ("data_only", "compute_only", "actual")),
            f"{row['predicted']:.2f} ({row['predicted_low']:.2f}-{row['predicted_high']:.2f})",
            f"{row['reached']:.2f}",
            f"{row['error']:+.1%}",
            "" if short is None else f"{short:.0%}",
            row["cause"] or "",
            f"{row['cores_busy_fraction']:.2f}",
            f"{row['interpreter_delay_ms']:.2f}",
            f"{row['others_cores']:.2f}",
        )
    return table


def add_to(path: Path, rows: dict[str, dict], seconds: float) -> None:
    known = (json.loads(path.read_text())["pipelines"] if path.exists() else {}) | rows
    ordered = {name: known[name] for name in PIPELINES if name in known}
    save(path, __file__, seconds=seconds, pipelines=ordered)


def main() -> int:
    parser = argparse.ArgumentParser(description="How well diagnose predicts.")
    parser.add_argument("--only", nargs="+", choices=PIPELINES, default=list(PIPELINES))
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--pairs", type=int, default=3, help="after each round")
    parser.add_argument("--json", help="where the figures are written, or added to")
    arguments = parser.parse_args()

    rows: dict[str, dict] = {}
    for name in arguments.only:
        rows[name] = measure(name, arguments.seconds, arguments.pairs)
        print(f"{name}: {rows[name]['error']:+.1%}", flush=True)
        if arguments.json:
            add_to(Path(arguments.json), rows, arguments.seconds)
    Console(width=150).print(tabulate(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
