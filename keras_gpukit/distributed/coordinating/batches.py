"""Hands batches out to workers ahead of the step that reports their logs."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, Protocol


class Pending(Protocol):
    """A step that was handed out to a worker."""

    def fetch(self) -> Any:
        """Waits for the step to end, and returns its logs."""


class BatchesAhead:
    """Hands out the next batches before it waits for the oldest step.

    The coordinator fetches batches while workers compute, so workers wait for data no longer than
    the coordinator does.

    Args:
        batches: The batches.
        at_once: Maximum number of steps that are handed out and not finished.
        steps: Number of steps in an epoch; None if an epoch has all batches.
        spec: Types and shapes of the batches.
    """

    def __init__(
        self, batches: Iterator[Any], at_once: int, steps: int | None, spec: Any = None
    ) -> None:
        self._batches = batches
        self._spec = spec
        self._at_once = at_once
        self._steps = steps
        self._taken = 0
        self._finished = 0
        self._pending: deque[Pending] = deque()
        self._fetching_s = 0.0

    def gpukit_fetch_time(self) -> float:
        """Returns the seconds of all fetches so far; `pipelines.measurable` calls it by name."""
        return self._fetching_s

    def __iter__(self) -> BatchesAhead:
        return self

    def __next__(self) -> Any:
        """Returns the next batch, without handing it out."""
        return next(self._batches)

    def step(self, hand_out: Callable[[Any, Any], Pending]) -> Any:
        """Hands out further batches, and waits for the oldest step.

        Args:
            hand_out: Function that starts a step, given a batch and `spec`.

        Returns:
            The logs of the oldest step.

        Raises:
            StopIteration: If all steps have finished and there are no more batches.
        """
        while len(self._pending) < self._at_once and self._may_take():
            try:
                batch = self._fetch()
            except StopIteration:
                break
            self._taken += 1
            self._pending.append(hand_out(batch, self._spec))
        if not self._pending:
            raise StopIteration
        logs = self._pending.popleft().fetch()
        self._finished += 1
        return logs

    def _fetch(self) -> Any:
        began_s = time.perf_counter()
        try:
            return next(self._batches)
        finally:
            self._fetching_s += time.perf_counter() - began_s

    def _may_take(self) -> bool:
        """Whether the epoch has more steps; the next epoch waits until the metrics are reset."""
        if self._steps is None:
            return True
        return self._taken // self._steps == self._finished // self._steps


class CoordinatedDataset:
    """Replaces the distributed dataset that Keras would iterate over.

    Args:
        dataset: The whole `tf.data.Dataset`; the coordinator reads it.
        at_once: Maximum number of steps that are handed out and not finished.
        steps: Number of steps in an epoch; None if an epoch has all batches.
    """

    def __init__(self, dataset: Any, at_once: int, steps: int | None) -> None:
        self._dataset = dataset
        self._at_once = at_once
        self._steps = steps

    def __iter__(self) -> BatchesAhead:
        spec = self._dataset.element_spec
        return BatchesAhead(iter(self._dataset), self._at_once, self._steps, spec)
