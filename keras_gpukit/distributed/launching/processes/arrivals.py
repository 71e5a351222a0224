"""Checks whether every process of a job has joined the job's cluster."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from keras_gpukit.distributed.launching.processes.ports import is_listening
from keras_gpukit.distributed.launching.processes.tasks import Task

_LOOKS_APART_S = 0.25


class Arrivals:
    """Finds the processes that keep the others waiting.

    A process has joined once it listens on its port, which TensorFlow does when the strategy is
    created. The strategy then waits for the others for many minutes, without a message. A job in
    which no process listens is not a cluster, and has no time limit.

    Args:
        ports: Port of each task that has to join.
        timeout_s: Maximum seconds from the first task joining to the last one.
        listens: Function that returns whether a port is listened on. Tests replace it.
    """

    def __init__(
        self,
        ports: Mapping[Task, int],
        timeout_s: float,
        listens: Callable[[int], bool] = is_listening,
    ) -> None:
        self._missing = dict(ports)
        self._count = len(ports)
        self._timeout_s = timeout_s
        self._listens = listens
        self._first_came_s: float | None = None
        self._looked_s: float | None = None

    @property
    def nobody_came(self) -> bool:
        """Whether there are several tasks, and none of them has joined so far."""
        return self._first_came_s is None and self._count > 1

    def overdue(self, now_s: float) -> tuple[Task, ...]:
        """Returns the tasks that have not joined in time; checks at most four times a second."""
        if not self._missing or (self._looked_s and now_s - self._looked_s < _LOOKS_APART_S):
            return ()
        self._looked_s = now_s
        for task, port in list(self._missing.items()):
            if self._listens(port):
                del self._missing[task]
        if self._first_came_s is None and len(self._missing) < self._count:
            self._first_came_s = now_s
        if self._first_came_s is None or now_s - self._first_came_s < self._timeout_s:
            return ()
        return tuple(self._missing)
