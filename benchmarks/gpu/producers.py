"""Input pipelines that sleep, decode or copy for a chosen time per batch."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import tensorflow as tf

from benchmarks.planted.known_times import BATCH, PIPELINES, ready

PIXELS = 256
COPIED = 2**20
"""Floats that one unit of copying copies: 4 MiB, more than caches near a core hold."""

Unit = Callable[[tf.Tensor], tf.Tensor]
"""A piece of work that takes and returns a number, so that each waits for the one before."""


def make(name: str, batches: int, batch_s: float) -> Any:
    """Returns data for `fit`."""
    if name in PIPELINES:
        return PIPELINES[name].make(batches, batch_s)
    unit, unit_s = timed_unit(name)
    return working(unit, batches, round(batch_s / unit_s))


def transferred(batches: int, features: int) -> tf.data.Dataset:
    """Batches that are ready on the host, and large. Shapes: (16, features) and (16, 1)."""
    batch = np.zeros((BATCH, features), "float32"), np.zeros((BATCH, 1), "float32")
    return tf.data.Dataset.from_tensors(batch).repeat(batches)


def working(unit: Unit, batches: int, units: int) -> tf.data.Dataset:
    """Batches for each of which a unit of work is done so many times, one batch at a time."""

    def work(inputs: tf.Tensor, targets: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        # What starts from a constant, or is multiplied by 0, TensorFlow would not compute.
        spent = 1e-20 * inputs[0, 0]
        for _ in range(units):
            spent = unit(spent)
        return inputs + 1e-20 * spent, targets

    options = tf.data.Options()
    options.experimental_optimization.map_parallelization = False
    return ready(batches).map(work).with_options(options)


@cache
def timed_unit(name: str) -> tuple[Unit, float]:
    """Returns a unit of work, and the time that it takes in a pipeline."""
    unit, units, batches = UNITS[name](), 8, 4
    iterator = iter(working(unit, 2 * batches, units))
    for _ in range(batches):  # until its buffers are full
        next(iterator)
    began_s = time.perf_counter()
    for _ in range(batches):
        next(iterator)
    return unit, (time.perf_counter() - began_s) / (batches * units)


def decoding() -> Unit:
    """Decodes images of noise, which take longest."""
    random = np.random.default_rng(0)
    images = random.integers(0, 255, size=(4, PIXELS, PIXELS, 3), dtype="uint8")
    encoded = tf.stack([tf.io.encode_jpeg(image) for image in images])

    def unit(spent: tf.Tensor) -> tf.Tensor:
        # Which one depends on the image before.
        image = tf.io.decode_jpeg(encoded[tf.cast(spent, tf.int32) % len(images)])
        return spent + tf.cast(image[0, 0, 0], tf.float32)

    return unit


def copying() -> Unit:
    """Fills a large array, and copies it to another place."""

    def unit(spent: tf.Tensor) -> tf.Tensor:
        return spent + tf.roll(tf.fill([COPIED], spent), 1, axis=0)[0]

    return unit


UNITS = {"decode": decoding, "copy": copying}
