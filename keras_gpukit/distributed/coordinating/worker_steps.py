"""Waits for steps that run on workers, some of which may be lost meanwhile."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from keras_gpukit.distributed.meeting import answers
from keras_gpukit.errors import WorkerError

_LOOK_EVERY_S = 5.0
_POLL_EVERY_S = 0.001


class Workers:
    """The workers, at least one of which has to be reachable for a step to end.

    TensorFlow waits an hour for lost workers to come back, and does not name them.

    Args:
        addresses: The "host:port" of each worker.
        timeout_s: Seconds for which all workers may be gone before that is an error.
        is_there: Function that returns whether a worker answers at its address. Tests replace it.
        clock: Clock in seconds. Tests replace it.
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
        """Waits until a step, or all of them, have ended.

        Args:
            is_over: Function that waits up to the given number of seconds, and returns whether
                they have ended.

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
    """Hands steps to workers, and waits for the steps.

    Args:
        tensorflows: TensorFlow's `tf.distribute.coordinator.ClusterCoordinator`.
        workers: The workers that run the steps.
    """

    def __init__(self, tensorflows: Any, workers: Workers) -> None:
        self._tensorflows = tensorflows
        self._workers = workers

    def hand_out(self, function: Any, batch: Any) -> WorkerStep:
        """Schedules a `tf.function` on a worker, called with a batch."""
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
            Exception: The first error of a step that is not handed to another worker.
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
    """A step that runs on a worker; its result outlives the worker.

    Private name, seen on TensorFlow 2.21: `RemoteValueImpl._status_available_event`. Without it,
    no error is raised when all workers are gone.

    Args:
        result: Value that TensorFlow's coordinator returned for the step.
        coordinator: Coordinator that handed out the step.
    """

    def __init__(self, result: Any, coordinator: Coordinator) -> None:
        self._result = result
        self._coordinator = coordinator

    def fetch(self) -> Any:
        """Waits for the step to end, and returns its logs.

        A worker may be lost after its step but before its logs are copied. The coordinator then
        gives the step to another worker. A step that was cancelled because of another step's error
        raises that error.

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
