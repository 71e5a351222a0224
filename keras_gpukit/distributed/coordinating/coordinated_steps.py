"""Hands batches out to workers ahead of the step that reports their logs, and waits."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from keras_gpukit.distributed.rendezvous import answers
from keras_gpukit.errors import WorkerError
from keras_gpukit.frameworks.tf_runtime import end_of


@dataclass(eq=False)
class BatchesAhead:
    """Hands out the next batches, at most `at_once`, before it waits for the oldest step.

    The coordinator fetches batches while workers compute, so workers wait for data no longer than
    the coordinator does. `spec` has types and shapes of the batches.
    """

    batches: Iterator[Any]
    at_once: int
    steps: int | None  # in an epoch; None if an epoch has all batches
    spec: Any = None
    _taken: int = 0
    _finished: int = 0
    _pending: deque[Any] = field(default_factory=deque)
    _fetching_s: float = 0.0

    def gpukit_fetch_time(self) -> float:
        """Returns the seconds of all fetches so far; `pipelines.rebuilding` calls it by name."""
        return self._fetching_s

    def __iter__(self) -> BatchesAhead:
        return self

    def __next__(self) -> Any:
        """Returns the next batch, without handing it out."""
        return next(self.batches)

    def step(self, hand_out: Callable[[Any, Any], Any]) -> Any:
        """Hands out further batches, and returns the logs of the oldest step once it has ended.

        It raises `StopIteration` if all steps have finished and there are no more batches.
        """
        while len(self._pending) < self.at_once and self._may_take():
            began_s = time.perf_counter()
            try:
                batch = next(self.batches)
            except StopIteration:
                break
            finally:
                self._fetching_s += time.perf_counter() - began_s
            self._taken += 1
            self._pending.append(hand_out(batch, self.spec))
        if not self._pending:
            raise StopIteration
        logs = self._pending.popleft().fetch()
        self._finished += 1
        return logs

    def _may_take(self) -> bool:
        """Whether the epoch has more steps; the next epoch waits until the metrics are reset."""
        if self.steps is None:
            return True
        return self._taken // self.steps == self._finished // self.steps


@dataclass(eq=False)
class CoordinatedDataset:
    """Replaces the distributed dataset that Keras would iterate over."""

    dataset: Any
    at_once: int
    steps: int | None

    def __iter__(self) -> BatchesAhead:
        spec = self.dataset.element_spec
        return BatchesAhead(iter(self.dataset), self.at_once, self.steps, spec)


_LOOK_EVERY_S = 5.0
_POLL_EVERY_S = 0.001


@dataclass
class Coordinator:
    """Hands steps to workers, all of which may be gone for `timeout_s` before that is an error.

    TensorFlow waits an hour for lost workers to come back, and does not name them.
    """

    _tensorflows: Any
    addresses: Sequence[str]
    timeout_s: float
    is_there: Callable[[str], bool] = answers
    clock: Callable[[], float] = time.monotonic

    def hand_out(self, function: Any, batch: Any) -> WorkerStep:
        """Schedules a `tf.function` on a worker, called with a batch."""
        return WorkerStep(self._tensorflows.schedule(function, args=(batch,)), self)

    def finish(self) -> None:
        """Waits for all steps that were handed out."""
        self.wait(self._is_done)

    def wait(self, is_over: Callable[[float], bool]) -> None:
        """Waits until a step, or all of them, have ended."""
        gone_since_s: float | None = None
        while not is_over(_LOOK_EVERY_S):
            if any(map(self.is_there, self.addresses)):
                gone_since_s = None
            elif gone_since_s is None:
                gone_since_s = self.clock()
            elif self.clock() - gone_since_s >= self.timeout_s:
                names = (f"worker {index} at {at}" for index, at in enumerate(self.addresses))
                raise WorkerError(
                    f"Lost contact with all workers for {self.timeout_s:g} s: {', '.join(names)}. "
                    "Their own logs say why. Start one of them again within `worker_timeout_s`, or "
                    "all processes; with keras.callbacks.BackupAndRestore they resume from the "
                    "last backup."
                )

    def _is_done(self, within_s: float) -> bool:
        ends_s = time.monotonic() + within_s
        while not self._tensorflows.done():
            if time.monotonic() >= ends_s:
                return False
            time.sleep(_POLL_EVERY_S)
        return True


@dataclass(eq=False)
class WorkerStep:
    """A step that runs on a worker; its result outlives the worker."""

    _result: Any
    _coordinator: Coordinator

    def fetch(self) -> Any:
        """Waits for the step to end, and returns its logs.

        A worker may be lost after its step but before its logs are copied. The coordinator then
        gives the step to another worker. A step that was cancelled because of another step's error
        raises that error.
        """
        from tensorflow.errors import OpError

        ended = end_of(self._result)
        if ended is not None:
            self._coordinator.wait(ended.wait)
        try:
            return self._result.fetch()
        except OpError:
            self._coordinator.finish()
            return self._result.fetch()
