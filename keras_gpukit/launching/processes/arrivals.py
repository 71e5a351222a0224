"""Whether every process of a job has joined its cluster."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from keras_gpukit.launching.processes.ports import is_listening
from keras_gpukit.launching.processes.tasks import Task

_LOOKS_APART_S = 0.25


class Arrivals:
    """Finds the process that keeps the others waiting.

    A process has come once it listens on its port, which TensorFlow does when the strategy is
    made. There it waits for the others without saying so, for many minutes. A job in which
    none listens is no cluster, and has no time limit.

    Args:
        ports: Of each task that has to come.
        timeout_s: How long after the first one the last one may come.
        listens: Whether a port is listened on; given in tests.
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
        """Whether none of several has come so far."""
        return self._first_came_s is None and self._count > 1

    def overdue(self, now_s: float) -> tuple[Task, ...]:
        """Looks four times a second, and returns those that have not come in time."""
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
