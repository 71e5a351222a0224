"""Measures the speed of a pipeline by briefly reading a copy, so that the original is unchanged.

A shuffle fills its buffer before its first element, and a cache helps only from the second epoch
on. A brief reading of the original pipeline would therefore not show its speed in training. In the
copy, each shuffle has a buffer of a few elements, which costs the same per element. Each cache
holds a sample that can be read quickly, and repeats it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from keras_gpukit.frameworks.tf_datasets import Dataset, cache_file, inputs, kind, number
from keras_gpukit.frameworks.tf_stages import draws_orders, over, with_buffer
from keras_gpukit.input.pipelines.rebuilding import changeable, is_known, replace
from keras_gpukit.tuning.measured_rates import has_ended, rate_of, size_bytes
from keras_gpukit.tuning.sources import endless

SHUFFLE_BUFFER = 16
# Time before a reading in which buffers fill, as a share of the duration of the reading.
WARM_UP = 0.25
# Limits for filling the sample of a cache: the time, in readings, and the size. The size is large
# enough that the sample does not fit into the processor's caches.
SAMPLE_READINGS = 4
SAMPLE_BYTES = 256 * 2**20
# Maximum time for counting elements, in readings, and the number between two looks at the clock.
COUNTING_READINGS, COUNTED_TOGETHER = 25, 100


@dataclass(frozen=True)
class Sample:
    """A sample of a pipeline's elements."""

    count: float
    size_bytes: float
    whole: bool


class Readings:
    """Prepares pipelines for reading, and keeps the samples for their caches."""

    def __init__(self, folder: str, read_s: float) -> None:
        self.read_s = read_s
        self._folder = folder
        self._caches: dict[int, tuple[Dataset, Dataset]] = {}

    def of(self, dataset: Dataset, consumer_s: float = 0.0) -> Callable[[], float]:
        """Returns a function that reads a pipeline briefly and returns its rate in batches/s."""
        ready = endless(self.ready(dataset))

        def read_rate() -> float:
            iterators = [iter(ready)]
            try:
                return rate(lambda: next(iterators[0]), self.read_s, consumer_s)
            except StopIteration:
                raise has_ended() from None
            finally:
                # Otherwise the iterator's threads would continue after an interrupt.
                iterators.clear()

        return read_rate

    def ready(self, dataset: Dataset) -> Dataset:
        """Returns a copy of the pipeline with small shuffle buffers and sampled caches."""
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

    def sample(self, ready: Dataset) -> Sample:
        """Reads elements for a limited time, and returns their number and size."""
        end = time.perf_counter() + SAMPLE_READINGS * self.read_s
        count = total_bytes = 0
        for element in ready:
            count += 1
            total_bytes += size_bytes(element)
            if total_bytes >= SAMPLE_BYTES or time.perf_counter() >= end:
                return Sample(count, total_bytes, whole=False)
        return Sample(count, total_bytes, whole=True)

    def count(self, ready: Dataset) -> int | None:
        """Returns the number of elements; None if counting them takes too long."""
        end = time.perf_counter() + COUNTING_READINGS * self.read_s
        total = 0
        # Fetching each element from Python takes longer than making many of them.
        for ones in ready.map(lambda *parts: 1).batch(COUNTED_TOGETHER):
            total += len(ones)
            if time.perf_counter() >= end:
                return None
        return total

    def _cached(self, stage: Dataset) -> Dataset:
        if id(stage) not in self._caches:
            below = self.ready(inputs(stage)[0])
            count = max(1, int(self.sample(below).count))
            on_disk = bool(cache_file(stage))
            name = os.path.join(self._folder, f"sample-{len(self._caches)}") if on_disk else ""
            cached = below.take(count).cache(name)
            for _ in cached:
                pass
            # Keep the stage too, so that no other object gets its id.
            self._caches[id(stage)] = stage, cached.repeat()
        return self._caches[id(stage)][1]


def rebuilt_stages(dataset: Dataset) -> Iterator[Dataset]:
    """Yields the stages that reading replaces by copies, so that their state does not advance."""
    for stage in changeable(dataset):
        yield stage
        if kind(stage) == "Cache":
            for below in inputs(stage):
                yield from rebuilt_stages(below)


def rate(fetch: Callable[[], Any], read_s: float, consumer_s: float = 0.0) -> float:
    """Measures the rate of a pipeline that has just started, in batches/s."""

    def step() -> None:
        fetch()
        if consumer_s:
            time.sleep(consumer_s)

    return rate_of(step, (1 + WARM_UP) * read_s, settling=WARM_UP / (1 + WARM_UP))


def _small_shuffle(stage: Dataset) -> Callable[[list[Dataset]], Dataset]:
    buffer = min(number(stage, "buffer_size"), SHUFFLE_BUFFER)
    return lambda below: with_buffer(stage, below[0], buffer)
