"""Reads a pipeline to see how fast it is, in a form that shows it soon and leaves no trace.

A shuffle fills its buffer before its first element, and a cache helps only from the second epoch
on: a moment's reading would see neither as training does. So each shuffle reads into a buffer of a
few elements, which costs the same for each element, and each cache holds only as many as are read
in a moment, again and again.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from keras_gpukit.experiments.sources import endless
from keras_gpukit.measuring.held_batches import has_ended
from keras_gpukit.measuring.rates import run_for
from keras_gpukit.pipelines.host_buffers import TENSOR_BYTES
from keras_gpukit.pipelines.kinds import kind
from keras_gpukit.pipelines.rebuilding import changeable, replace
from keras_gpukit.pipelines.remaking import draws_orders, is_known, over, with_buffer
from keras_gpukit.pipelines.structure import Dataset, cache_file, inputs, number

LEAST_BATCHES = 3
SHUFFLE_BUFFER = 16
# Of the time for a reading, what goes before it, in which buffers are filled.
WARM_UP = 0.25
# How many readings' time it takes to fill a sample of a cache. Its size: enough that the
# processor's own caches do not hold it.
SAMPLE_READINGS = 4
SAMPLE_BYTES = 256 * 2**20
# What a string takes in addition to its bytes. Our choice.
STRING_BYTES = 24


@dataclass(frozen=True)
class Sample:
    """Some of a pipeline's elements.

    Attributes:
        count: How many.
        size_bytes: What they take in memory.
        whole: Whether these are all.
    """

    count: int
    size_bytes: int
    whole: bool


class Readings:
    """Makes pipelines ready for reading, and keeps the samples that their caches hold.

    Args:
        folder: An empty folder, where samples of caches on disk may go.
        read_s: How long a reading takes, in seconds.
    """

    def __init__(self, folder: str, read_s: float) -> None:
        self.read_s = read_s
        self._folder = folder
        self._caches: dict[int, tuple[Dataset, Dataset]] = {}

    def of(self, dataset: Dataset, consumer_s: float = 0.0) -> Callable[[], float]:
        """Returns what reads a pipeline for a moment, and gives its rate in batches a second.

        Args:
            dataset: The pipeline.
            consumer_s: Time between two fetches in which nothing is asked for, as in a train step.
        """
        ready = endless(self.ready(dataset))

        def read() -> float:
            iterators = [iter(ready)]
            try:
                return rate(lambda: next(iterators[0]), self.read_s, consumer_s)
            except StopIteration:
                raise has_ended() from None
            finally:
                # Else its threads would go on after an interrupt.
                iterators.clear()

        return read

    def ready(self, dataset: Dataset) -> Dataset:
        """The pipeline in the form in which it is read."""
        changes: dict[int, Callable[[list[Dataset]], Dataset]] = {}
        for stage in changeable(dataset):
            if kind(stage) == "Shuffle" and is_known(stage):
                changes[id(stage)] = _small_shuffle(stage)
            elif draws_orders(stage):
                changes[id(stage)] = partial(over, stage)
            elif kind(stage) == "Cache":
                cached = self._cached(stage)
                changes[id(stage)] = lambda below, cached=cached: cached  # type: ignore[misc]
        return replace(dataset, changes)

    def sample(
        self,
        ready: Dataset,
        readings: float = SAMPLE_READINGS,
        enough_bytes: float = SAMPLE_BYTES,
    ) -> Sample:
        """Reads elements for a while, to see how many there are and how large they are.

        Args:
            ready: The pipeline, ready for reading.
            readings: How many readings' time it may take.
            enough_bytes: How much to read at most.
        """
        end = time.perf_counter() + readings * self.read_s
        count = size_bytes = 0
        for element in ready:
            count += 1
            size_bytes += _size(element)
            if size_bytes >= enough_bytes or time.perf_counter() >= end:
                return Sample(count, size_bytes, whole=False)
        return Sample(count, size_bytes, whole=True)

    def _cached(self, stage: Dataset) -> Dataset:
        if id(stage) not in self._caches:
            below = self.ready(inputs(stage)[0])
            count = max(1, self.sample(below).count)
            on_disk = bool(cache_file(stage))
            name = os.path.join(self._folder, f"sample-{len(self._caches)}") if on_disk else ""
            cached = below.take(count).cache(name)
            for _ in cached:
                pass
            # The stage is kept too, so that its id stays its own.
            self._caches[id(stage)] = stage, cached.repeat()
        return self._caches[id(stage)][1]


def rebuilt_stages(dataset: Dataset) -> Iterator[Dataset]:
    """The stages of which reading uses a copy, so that they stay where they are."""
    for stage in changeable(dataset):
        yield stage
        if kind(stage) == "Cache":
            for below in inputs(stage):
                yield from rebuilt_stages(below)


def rate(fetch: Callable[[], Any], read_s: float, consumer_s: float = 0.0) -> float:
    """Batches a second of a pipeline that has just started."""

    def step() -> None:
        fetch()
        if consumer_s:
            time.sleep(consumer_s)

    run_for(step, WARM_UP * read_s)
    began = time.perf_counter()
    batches = run_for(step, read_s, at_least=LEAST_BATCHES)
    return batches / (time.perf_counter() - began)


def _small_shuffle(stage: Dataset) -> Callable[[list[Dataset]], Dataset]:
    buffer = min(number(stage, "buffer_size"), SHUFFLE_BUFFER)
    return lambda below: with_buffer(stage, below[0], buffer)


def _size(element: Any) -> int:
    import tensorflow as tf

    total = 0
    for part in tf.nest.flatten(element, expand_composites=True):
        if part is None:
            continue
        count = int(tf.size(part))
        if part.dtype == tf.string:
            text_bytes = int(tf.reduce_sum(tf.strings.length(part)))
            total += TENSOR_BYTES + STRING_BYTES * count + text_bytes
        else:
            total += TENSOR_BYTES + part.dtype.size * count
    return total
