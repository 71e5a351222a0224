"""How long messages to other workers take, while a run goes on."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence

from keras_gpukit.errors import logger
from keras_gpukit.records.worker_comparison import RoundTrip

# Two answers a second cost a worker under a millisecond of processor time, however large the
# cluster is. A dead peer must not keep the sampling thread.
TIMEOUT_S = 1.0
NEIGHBOURS = 2
MOST_READINGS = 512


class RoundTrips:
    """Asks the next two workers for a sign of life now and then, and notes how long that takes.

    Each link of the ring in which gradients travel is so measured by one worker, and a worker's
    links by four, which separates a slow worker from a slow peer. The lowest reading counts most:
    what comes on top of it is the other machine being busy.

    Args:
        index: Of this worker.
        tasks: Of all workers, by index.
        ask: Asks a task, within some seconds, and returns when it has answered.
        now: The clock, in seconds.
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
        """Asks each of them once; one that does not answer is not asked again."""
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
        """What the readings come to."""
        return tuple(
            RoundTrip(peer, min(readings), statistics.median(readings), len(readings))
            for peer, readings in self._readings.items()
            if readings
        )
