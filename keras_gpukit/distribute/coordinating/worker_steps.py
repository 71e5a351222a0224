"""Waits for steps that workers make, some of whom may be lost meanwhile."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from keras_gpukit.distribute.meeting import answers
from keras_gpukit.errors import WorkerError

_LOOK_EVERY_S = 5.0
_POLL_EVERY_S = 0.001


class Workers:
    """The workers, of whom one at least has to be there for a step to end.

    TensorFlow waits for an hour for lost workers to come back, and names none of them.

    Args:
        addresses: Their "host:port".
        timeout_s: How long all of them may be gone.
        is_there: Whether one answers; given in tests, as the clock is.
    """

    def __init__(
        self,
        addresses: Sequence[str],
        timeout_s: float,
        is_there: Callable[[str], bool] = answers,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._addresses = addresses
        self._timeout_s = timeout_s
        self._is_there = is_there
        self._clock = clock

    def wait(self, is_over: Callable[[float], bool]) -> None:
        """Waits until something is over.

        Args:
            is_over: Waits for up to so many seconds, and returns whether it is.

        Raises:
            WorkerError: If no worker answers for `timeout_s`.
        """
        gone_since_s: float | None = None
        while not is_over(_LOOK_EVERY_S):
            if any(map(self._is_there, self._addresses)):
                gone_since_s = None
            elif gone_since_s is None:
                gone_since_s = self._clock()
            elif self._clock() - gone_since_s >= self._timeout_s:
                names = (f"worker {index} at {at}" for index, at in enumerate(self._addresses))
                raise WorkerError(
                    f"Lost contact with all workers for {self._timeout_s:g} s: {', '.join(names)}. "
                    "Their own logs say why. Start one of them again within `worker_timeout_s`, or "
                    "all processes; with keras.callbacks.BackupAndRestore they resume from the "
                    "last backup."
                )


class Coordinator:
    """Hands steps to workers, and waits for them.

    Args:
        tensorflows: The `tf.distribute.coordinator.ClusterCoordinator`.
        workers: Those that make the steps.
    """

    def __init__(self, tensorflows: Any, workers: Workers) -> None:
        self._tensorflows = tensorflows
        self._workers = workers

    def hand_out(self, function: Any, batch: Any) -> WorkerStep:
        """Has a worker call a `tf.function` with a batch."""
        return WorkerStep(self._tensorflows.schedule(function, args=(batch,)), self)

    def wait_for(self, event: Any) -> None:
        """Waits for a `threading.Event`.

        Raises:
            WorkerError: If all workers are gone.
        """
        self._workers.wait(event.wait)

    def finish(self) -> None:
        """Waits for all steps that were handed out.

        Raises:
            WorkerError: If all workers are gone.
            Exception: The first one of a step that goes to no other worker.
        """
        self._workers.wait(self._is_done)

    def _is_done(self, within_s: float) -> bool:
        ends_s = time.monotonic() + within_s
        while not self._tensorflows.done():
            if time.monotonic() >= ends_s:
                return False
            time.sleep(_POLL_EVERY_S)
        return True


class WorkerStep:
    """A step that a worker makes; its result outlives the worker.

    Private name, seen on TensorFlow 2.21: `RemoteValueImpl._status_available_event`. Without it,
    all workers may be gone without an error.

    Args:
        result: What TensorFlow's coordinator returned for the step.
        coordinator: What handed it out.
    """

    def __init__(self, result: Any, coordinator: Coordinator) -> None:
        self._result = result
        self._coordinator = coordinator

    def fetch(self) -> Any:
        """Waits for the step to end, and returns its logs.

        A worker may be lost after its step and before its logs are copied: the coordinator then
        gives the step to another worker. A step that was cancelled for the error of another raises
        that error.

        Raises:
            WorkerError: If all workers are gone.
        """
        from tensorflow.errors import OpError

        ended = getattr(self._result, "_status_available_event", None)
        if ended is not None:
            self._coordinator.wait_for(ended)
        try:
            return self._result.fetch()
        except OpError:
            self._coordinator.finish()
            return self._result.fetch()
