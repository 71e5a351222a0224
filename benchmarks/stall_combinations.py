"""Pipelines, steps and devices whose input stall is known from how they are made.

Those of one way of running share a process, and no others, since devices are settled when
TensorFlow starts:

    python benchmarks/stall_combinations.py serial/graph/spe1/one/0 generator/graph/spe1/one/50
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import numpy as np
import tensorflow as tf
from xplane_truth import Capture

import keras_gpukit as gpukit

BATCH, FEATURES = 16, 8
STEP_S = 0.03
# Long enough to tell two points of a hundred, short enough for a profile.
STRETCH_S = 1.5
WORKERS = 2
BURST = 8
LONGEST_CAPTURE = 48
AGREE = 0.02
ATTEMPTS = 2


class Sleep(keras.layers.Layer):
    """Makes a step take a known time. XLA cannot sleep."""

    def call(self, inputs):
        # TensorFlow has no operation that sleeps, but a dataset can, and a step can ask one. It
        # needs the inputs, or it would sleep while they are being fetched; and asked for a second
        # element, as it is, it would sleep once more.
        needed = tf.data.Dataset.from_tensors(0.0 * tf.reduce_sum(inputs))
        slept = needed.apply(sleep(STEP_S)).take(1)
        return inputs + slept.get_single_element()


class Sort(keras.layers.Layer):
    """Makes a step take about as long by work, on one core."""

    def build(self, input_shape):
        self.numbers = self.add_weight(shape=(130_000,), trainable=False, initializer="normal")

    def call(self, inputs):
        least = keras.ops.sort(self.numbers + tf.reduce_sum(inputs))[0]
        return inputs + tf.stop_gradient(least)


def sleep(seconds: float) -> Callable[[tf.data.Dataset], tf.data.Dataset]:
    """Sleeps before each element, without Python."""
    from tensorflow.python.data.experimental.ops.testing import sleep as sleep_us

    return sleep_us(round(seconds * 1e6))


def arrays(batches: int) -> tuple[np.ndarray, np.ndarray]:
    inputs = np.random.default_rng(0).normal(size=(batches * BATCH, FEATURES)).astype("float32")
    return inputs, inputs.sum(axis=1, keepdims=True)


def ready(batches: int) -> tf.data.Dataset:
    return tf.data.Dataset.from_tensor_slices(arrays(batches)).batch(BATCH, drop_remainder=True)


def unmodelled(dataset: tf.data.Dataset) -> tf.data.Dataset:
    options = tf.data.Options()
    options.autotune.enabled = False
    return dataset.with_options(options)


def serial(batches: int, seconds: float) -> tf.data.Dataset:
    return ready(batches).apply(sleep(seconds))


def prefetched(batches: int, seconds: float) -> tf.data.Dataset:
    return serial(batches, seconds).prefetch(4)


def bursty(batches: int, seconds: float) -> tf.data.Dataset:
    """All of the time of eight batches goes into one of them."""
    slow = ready(batches).apply(sleep(BURST * seconds)).repeat()
    choice = tf.data.Dataset.range(batches).map(
        lambda index: tf.cast(index % BURST == BURST - 1, tf.int64)
    )
    return tf.data.Dataset.choose_from_datasets([ready(batches).repeat(), slow], choice).prefetch(4)


def cached(batches: int, seconds: float) -> tf.data.Dataset:
    """Slow when it is first read, and slow after the cache where there is a time to take."""
    dataset = ready(batches).apply(sleep(0.002)).cache()
    for _ in dataset:
        pass
    return dataset.apply(sleep(seconds)) if seconds else dataset


def pause(seconds: float) -> Callable:
    def paused(inputs, targets):
        time.sleep(seconds)
        return inputs, targets

    def on_batch(inputs, targets):
        outputs = tf.numpy_function(paused, (inputs, targets), (tf.float32, tf.float32))
        for output, like in zip(outputs, (inputs, targets), strict=True):
            output.set_shape(like.shape)
        return tuple(outputs)

    return on_batch


def parallel(batches: int, seconds: float) -> tf.data.Dataset:
    return ready(batches).map(pause(WORKERS * seconds), num_parallel_calls=WORKERS)


def autotuned(batches: int, seconds: float) -> tf.data.Dataset:
    return ready(batches).map(pause(WORKERS * seconds), num_parallel_calls=tf.data.AUTOTUNE)


def interleaved(batches: int, seconds: float) -> tf.data.Dataset:
    """Two files are read at a time, an example a record."""
    folder = tempfile.mkdtemp()
    inputs, targets = arrays(batches)
    for index in range(WORKERS):
        with tf.io.TFRecordWriter(f"{folder}/{index}.tfrecord") as writer:
            for record in np.hstack([inputs, targets])[index::WORKERS]:
                writer.write(record.tobytes())

    def parse(record):
        values = tf.ensure_shape(tf.io.decode_raw(record, tf.float32), (FEATURES + 1,))
        return values[:FEATURES], values[FEATURES:]

    paths = tf.data.Dataset.list_files(f"{folder}/*.tfrecord", shuffle=False)
    record_s = WORKERS * seconds / BATCH
    records = paths.interleave(
        lambda path: tf.data.TFRecordDataset(path).apply(sleep(record_s)),
        cycle_length=WORKERS,
        num_parallel_calls=WORKERS,
    )
    return records.map(parse).batch(BATCH, drop_remainder=True)


def without_autotuning(batches: int, seconds: float) -> tf.data.Dataset:
    return unmodelled(serial(batches, seconds).prefetch(2))


def shuffled_without_autotuning(batches: int, seconds: float) -> tf.data.Dataset:
    return without_autotuning(batches, seconds).shuffle(2)


class Batches(keras.utils.PyDataset):
    def __init__(self, batches: int, seconds: float, **options) -> None:
        super().__init__(**options)
        self.seconds = seconds
        self.inputs, self.targets = arrays(batches)

    def __len__(self) -> int:
        return len(self.inputs) // BATCH

    def __getitem__(self, index: int):
        time.sleep(self.seconds)
        rows = slice(index * BATCH, (index + 1) * BATCH)
        return self.inputs[rows], self.targets[rows]


def generator(batches: int, seconds: float):
    data = Batches(batches, seconds)
    for index in range(batches):
        yield data[index]


@dataclass(frozen=True)
class Pipeline:
    """A kind of pipeline.

    Attributes:
        make: Makes one from the number of batches and the mean time to make a batch.
        workers: Batches made at a time; None where that is not settled.
        buffer: Batches made ahead.
        bursty: Whether all of the time goes into some of the batches.
    """

    make: Callable[[int, float], object]
    workers: int | None = 1
    buffer: int = 2
    bursty: bool = False

    def made_s(self, batch_s: float) -> float:
        """Mean time from one batch to the next; sleeping takes somewhat longer than it should."""
        data = self.make(BURST, batch_s)
        if not isinstance(data, tf.data.Dataset):
            return batch_s
        began_s = time.perf_counter()
        # Not to the iterator's end, which waits for tf.data's autotuning.
        *_, ended_s = (time.perf_counter() for _ in data)
        return (ended_s - began_s) / BURST


PIPELINES = {
    "arrays": Pipeline(lambda batches, seconds: arrays(batches)),
    "autotuned": Pipeline(autotuned, workers=None),
    "bursty": Pipeline(bursty, buffer=4, bursty=True),
    "cached": Pipeline(cached),
    "generator": Pipeline(generator),
    "interleaved": Pipeline(interleaved),
    "no-autotune": Pipeline(without_autotuning),
    "no-autotune-shuffled": Pipeline(shuffled_without_autotuning),
    "parallel": Pipeline(parallel, workers=WORKERS),
    "prefetched": Pipeline(prefetched, buffer=4),
    "pydataset": Pipeline(Batches),
    "pydataset-processes": Pipeline(
        lambda batches, seconds: Batches(
            batches, WORKERS * seconds, workers=WORKERS, use_multiprocessing=True
        ),
        workers=WORKERS,
        buffer=10,
    ),
    "pydataset-threads": Pipeline(
        lambda batches, seconds: Batches(batches, WORKERS * seconds, workers=WORKERS),
        workers=WORKERS,
        buffer=10,
    ),
    "serial": Pipeline(serial),
}
MODES = {
    "graph": {"jit_compile": False},
    "jit": {"jit_compile": True},
    "eager": {"jit_compile": False, "run_eagerly": True},
}


def expected_stall(
    pipeline: Pipeline, batch_s: float, step_s: float, steps: int, an_execution: int
) -> float | None:
    """Plays the making and the taking of batches through.

    Args:
        pipeline: What makes them.
        batch_s: Mean time from one batch to the next.
        step_s: Time of a step.
        steps: Steps of the fit; the first execution and the last are left out, as they are when
            it is measured.
        an_execution: Steps in an execution.
    """
    if pipeline.workers is None:
        return None
    takes_s = [pipeline.workers * batch_s] * steps
    if pipeline.bursty:
        takes_s = [BURST * batch_s if n % BURST == BURST - 1 else 0.0 for n in range(steps)]
    free_s = [0.0] * pipeline.workers
    taken_s: list[float] = []
    waits_s, ready_s, now_s, requests_s = [], 0.0, 0.0, []
    for step, make_s in enumerate(takes_s):
        ahead = step - pipeline.buffer - pipeline.workers
        worker = step % pipeline.workers
        free_s[worker] = max(free_s[worker], taken_s[ahead] if ahead >= 0 else 0.0) + make_s
        ready_s = max(ready_s, free_s[worker])
        requests_s.append(now_s)
        waits_s.append(max(0.0, ready_s - now_s))
        now_s = max(now_s, ready_s)
        taken_s.append(now_s)
        now_s += step_s
    inner = slice(an_execution, steps - an_execution)
    return sum(waits_s[inner]) / (requests_s[steps - an_execution] - requests_s[an_execution])


class BusyTime(keras.callbacks.Callback):
    """Times executions that find their batches ready, on cores that were idle before."""

    def __init__(self, idle_s: float) -> None:
        super().__init__()
        self.idle_s = idle_s
        self.durations_s: list[float] = []

    def on_train_batch_begin(self, batch, logs=None):
        time.sleep(self.idle_s)
        self._began_s = time.perf_counter()

    def on_train_batch_end(self, batch, logs=None):
        self.durations_s.append(time.perf_counter() - self._began_s)


class Way:
    """A way of running, and a model to run.

    Args:
        mode: A name in `MODES`.
        an_execution: Steps in an execution.
        devices: "one" or "two".
    """

    def __init__(self, mode: str, an_execution: int, devices: str) -> None:
        self.an_execution = an_execution
        self.overlaps = an_execution > 1 and mode != "eager"
        strategy = tf.distribute.get_strategy()
        if devices == "two":
            [cpu] = tf.config.list_physical_devices("CPU")
            tf.config.set_logical_device_configuration(
                cpu, [tf.config.LogicalDeviceConfiguration()] * 2
            )
            # TensorFlow's default way to add up over CPUs fails where an execution has more steps.
            strategy = tf.distribute.MirroredStrategy(
                ["CPU:0", "CPU:1"], cross_device_ops=tf.distribute.ReductionToOneDevice()
            )
        with strategy.scope():
            busy = Sort() if mode == "jit" else Sleep()
            self.model = keras.Sequential([keras.Input((FEATURES,)), busy, keras.layers.Dense(1)])
            options = {"steps_per_execution": an_execution, **MODES[mode]}
            self.model.compile(keras.optimizers.SGD(1e-6), "mse", **options)

    def fit(self, data: object, *callbacks: keras.callbacks.Callback) -> None:
        inputs, targets = data if isinstance(data, tuple) else (data, None)
        self.model.fit(
            inputs, targets, batch_size=BATCH, shuffle=False, verbose=0, callbacks=list(callbacks)
        )

    def step_s(self, idle_s: float) -> float:
        """Time of a step that never waits."""
        busy = BusyTime(idle_s)
        executions = 5 if self.an_execution == 1 else 3
        self.fit(unmodelled(ready(executions * self.an_execution).cache()), busy)
        return statistics.fmean(busy.durations_s[1:]) / self.an_execution

    def measure(self, pipeline: Pipeline, percent: int) -> dict[str, object]:
        """Fits with a pipeline so slow that a given part of the step is stalled.

        Where the machine was disturbed what is known contradicts itself: then it is done again.

        Args:
            pipeline: What makes batches.
            percent: The part, in percent; for 0 the pipeline takes half as long as the step.
        """
        self.fit(pipeline.make(2 * self.an_execution, 0.0))  # traces
        for _ in range(ATTEMPTS):
            step_s = self.step_s(0.0)
            batch_s = step_s / (1 - percent / 100) if percent else step_s / 2
            row = self.measure_once(pipeline, batch_s)
            if row["constructed"] is None or abs(row["constructed"] - row["profile"]) <= AGREE:
                break
        return row

    def measure_once(self, pipeline: Pipeline, batch_s: float) -> dict[str, object]:
        wanted = round(STRETCH_S / batch_s / self.an_execution)
        steps = min(max(wanted * self.an_execution, 12, 5 * self.an_execution), LONGEST_CAPTURE)
        # Cores that were idle take some time to wake up, in what is compared too.
        idle_s = max(0.0, batch_s - STEP_S) if self.an_execution == 1 else 0.0
        steps_s = [self.step_s(idle_s)]
        stall, capture = gpukit.InputStall(None), Capture()
        self.fit(pipeline.make(steps, batch_s), stall, capture)
        steps_s.append(self.step_s(idle_s))
        record, step_s = stall.summary, statistics.fmean(steps_s)
        made_s = pipeline.made_s(batch_s)
        return {
            "reported": record.stall_fraction,
            "profile": capture.stall(overlapping=self.overlaps),
            "constructed": expected_stall(pipeline, made_s, step_s, steps, self.an_execution),
            "confidence": record.confidence,
            "mechanism": record.mechanism,
            "unknown_because": record.unknown_because,
            "steps": steps,
            "step_ms": 1e3 * step_s,
            "batch_ms": 1e3 * made_s,
        }


def main() -> None:
    _, mode, execution, devices, _ = sys.argv[1].split("/")
    way = Way(mode, int(execution.removeprefix("spe")), devices)
    versions = {"tensorflow": tf.__version__, "keras": keras.__version__}
    for name in sys.argv[1:]:
        pipeline, *_, percent = name.split("/")
        row = way.measure(PIPELINES[pipeline], int(percent))
        print(json.dumps({"name": name, **row, **versions}), flush=True)
    # Some pipelines would keep the interpreter from ending.
    os._exit(0)


if __name__ == "__main__":
    main()
