"""Measures the round trip of messages to other workers during a run."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence

from keras_gpukit.errors import logger
from keras_gpukit.records.worker_comparison import RoundTrip

# Answering two requests per second costs a worker under a millisecond of processor time, whatever
# the size of the cluster. The timeout keeps a dead peer from blocking the sampling thread.
TIMEOUT_S = 1.0
NEIGHBOURS = 2
MOST_READINGS = 512


class RoundTrips:
    """Measures how long the next two workers take to answer a health check.

    One worker measures each link of the ring in which gradients travel. Four measured links lead
    to or from each worker, which separates a slow worker from a slow peer. The lowest reading
    matters most: any time above it means that the other machine was busy.

    Args:
        index: Index of this worker.
        tasks: TensorFlow's task names of all workers, by index.
        ask: Function that takes a task and a timeout in seconds, and returns once the task has
            answered.
        now: Clock in seconds.
    """

    def __init__(
        self,
        index: int,
        tasks: Sequence[str],
        ask: Callable[[str, float], None],
        now: Callable[[], float] = time.perf_counter,
    ) -> None:
        peers = {(index + step) % len(tasks) for step in range(1, NEIGHBOURS + 1)} - {index}
        self._tasks = {peer: tasks[peer] for peer in sorted(peers)}
        self._ask = ask
        self._now = now
        self._readings: dict[int, list[float]] = {peer: [] for peer in self._tasks}

    def read(self) -> None:
        """Asks each of the peers once; one that does not answer is not asked again."""
        for peer, task in tuple(self._tasks.items()):
            began_s = self._now()
            try:
                self._ask(task, TIMEOUT_S)
            except Exception as error:
                del self._tasks[peer]
                logger.debug("worker %d gives no sign of life: %s", peer, error)
                continue
            if len(self._readings[peer]) < MOST_READINGS:
                self._readings[peer].append(self._now() - began_s)

    def record(self) -> tuple[RoundTrip, ...]:
        """Returns the lowest and the median round trip to each peer that has answered."""
        return tuple(
            RoundTrip(peer, min(readings), statistics.median(readings), len(readings))
            for peer, readings in self._readings.items()
            if readings
        )
