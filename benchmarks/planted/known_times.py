"""Pipelines that take known times, and the stall that follows from how they are made."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import keras
import numpy as np
import tensorflow as tf

BATCH, FEATURES = 16, 8
WORKERS = 2
BURST = 8


def sleep(seconds: float) -> Callable[[tf.data.Dataset], tf.data.Dataset]:
    """Sleeps before each element: without Python where there is no GPU.

    TensorFlow's own sleep ends the process once its dataset feeds a function on a GPU (2.21).
    """
    if tf.config.list_physical_devices("GPU"):
        return sleep_in_python(seconds)
    from tensorflow.python.data.experimental.ops.testing import sleep as sleep_us

    return sleep_us(round(seconds * 1e6))


def sleep_in_python(seconds: float) -> Callable[[tf.data.Dataset], tf.data.Dataset]:
    """Sleeps before each element in a function of Python."""
    options = tf.data.Options()
    options.experimental_optimization.map_parallelization = False
    return lambda dataset: dataset.map(pause(seconds)).with_options(options)


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


def passing(note: Callable[[], None]) -> Callable:
    """Maps elements to themselves, and calls a function at each."""

    def noted(*element):
        note()
        return list(element)

    def on_element(*element):
        outputs = tf.numpy_function(noted, element, [tensor.dtype for tensor in element])
        for output, like in zip(outputs, element, strict=True):
            output.set_shape(like.shape)
        return tuple(outputs) if len(outputs) > 1 else outputs[0]

    return on_element


def pause(seconds: float) -> Callable:
    return passing(lambda: time.sleep(seconds))


def noting_arrivals(batches: int, seconds: float, arrivals_s: list[float]) -> tf.data.Dataset:
    """Notes when each batch is there."""
    arrived = passing(lambda: arrivals_s.append(time.perf_counter()))
    return unmodelled(serial(batches, seconds).map(arrived).prefetch(2))


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
    """A kind of pipeline."""

    make: Callable[[int, float], object]  # from the number of batches, and the mean time of one
    workers: int | None = 1  # batches made at a time; None where that is not settled
    ahead: int = 2  # batches made, or being made, before they are asked for
    made_before: int = 0  # batches taken before training, by Keras, to see what they are
    bursty: bool = False  # whether all of the time goes into some of the batches

    def made_s(self, batch_s: float) -> float:
        """Mean time from one batch to the next; sleeping takes somewhat longer than it should."""
        data = self.make(WORKERS + BURST, batch_s)
        if not isinstance(data, tf.data.Dataset):
            return batch_s
        # Not to the iterator's end, which waits for tf.data's autotuning; and not from its begin,
        # where workers start up.
        arrivals_s = [time.perf_counter() for _ in data]
        return (arrivals_s[-1] - arrivals_s[WORKERS - 1]) / BURST


PIPELINES = {
    "arrays": Pipeline(lambda batches, seconds: arrays(batches)),
    "autotuned": Pipeline(autotuned, workers=None),
    "bursty": Pipeline(bursty, ahead=4, bursty=True),
    "cached": Pipeline(cached),
    "generator": Pipeline(generator, made_before=2),
    "interleaved": Pipeline(interleaved),
    "no-autotune": Pipeline(without_autotuning),
    "no-autotune-shuffled": Pipeline(shuffled_without_autotuning),
    "parallel": Pipeline(parallel, workers=WORKERS, ahead=2 + WORKERS),
    "prefetched": Pipeline(prefetched, ahead=4),
    "pydataset": Pipeline(Batches),
    "pydataset-processes": Pipeline(
        lambda batches, seconds: Batches(
            batches, WORKERS * seconds, workers=WORKERS, use_multiprocessing=True
        ),
        workers=WORKERS,
        ahead=10,
    ),
    "pydataset-threads": Pipeline(
        lambda batches, seconds: Batches(batches, WORKERS * seconds, workers=WORKERS),
        workers=WORKERS,
        ahead=10,
    ),
    "serial": Pipeline(serial),
}

# Needs no making at all.
READY = Pipeline(lambda batches, seconds: unmodelled(ready(batches).cache()))


def expected_stall(
    pipeline: Pipeline,
    batch_s: float,
    hand_over_s: float,
    step_s: float,
    pauses_s: Sequence[float],
    an_execution: int,
    *,
    overlaps: bool,
) -> float | None:
    """Plays the making and the taking of batches through.

    `batch_s` is the mean time from one batch to the next, `hand_over_s` what one takes that is
    ready, `pauses_s` what passes after each execution. If it `overlaps`, a batch is fetched as soon
    as the step before it in the execution begins, and not when that has ended. The first and the
    last execution are left out, as they are when it is measured.
    """
    if pipeline.workers is None:
        return None
    steps = an_execution * len(pauses_s)
    takes_s = [pipeline.workers * batch_s] * steps
    if pipeline.bursty:
        takes_s = [BURST * batch_s if n % BURST == BURST - 1 else 0.0 for n in range(steps)]
    takes_s[: pipeline.made_before] = [0.0] * pipeline.made_before
    free_s = [0.0] * pipeline.workers
    taken_s: list[float] = []
    waits_s, executions_s, ready_s, now_s = [], [], 0.0, 0.0
    for execution, pause_s in enumerate(pauses_s):
        executions_s.append(now_s)
        asked_s = now_s
        for step in range(execution * an_execution, (execution + 1) * an_execution):
            ahead, worker = step - pipeline.ahead, step % pipeline.workers
            room_s = taken_s[ahead] if ahead >= 0 else 0.0
            free_s[worker] = max(free_s[worker], room_s) + takes_s[step]
            ready_s = max(ready_s, free_s[worker])
            taken_s.append(max(ready_s, asked_s) + hand_over_s)
            begun_s = max(now_s, taken_s[-1])
            waits_s.append(begun_s - now_s)
            now_s = begun_s + step_s
            asked_s = begun_s if overlaps else now_s
        now_s += pause_s
    inner = slice(an_execution, steps - an_execution)
    return sum(waits_s[inner]) / (executions_s[-1] - executions_s[1])
