"""Some steps of a run with their time in collectives: the same steps on every worker."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from typing import Any

from keras_gpukit.input_wait.self_cost import StepFunction
from keras_gpukit.records.worker_comparison import ComparedStep

MOST_STEPS = 256
"""How many are kept: then every other one is dropped, so that they are spread over the run."""
FIRST_STEPS = 3
"""Steps at a start that trace, fill buffers and warm up; they are left out."""


class StepShares:
    """Reads a clock at each step's begin, and keeps what passed from one to the next.

    Which steps are kept depends on their numbers alone, so that all workers keep the same.

    Args:
        in_collectives_s: Seconds in collectives so far.
        first_step: Global step before the run.
        steps_per_execution: Steps in one call of the step function.
        now: The clock, in seconds.
    """

    def __init__(
        self,
        in_collectives_s: Callable[[], float],
        *,
        first_step: int = 0,
        steps_per_execution: int = 1,
        now: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._in_collectives_s = in_collectives_s
        self._step = self._first_step = first_step
        self._per_execution = steps_per_execution
        self._now = now
        self._began: tuple[float, float] | None = None
        self._every = 1
        self._kept: list[ComparedStep] = []

    @property
    def steps(self) -> tuple[ComparedStep, ...]:
        """Those that were kept; none where no collective was seen."""
        seen = any(step.collective_s > 0 for step in self._kept)
        return tuple(self._kept) if seen else ()

    def wrap(self, step_function: StepFunction) -> StepFunction:
        """Returns the step function with its begins noted."""

        @functools.wraps(step_function)
        def noted(batches: Any) -> Any:
            self._note()
            outputs = step_function(batches)
            self._step += self._per_execution
            return outputs

        return noted

    def pause(self) -> None:
        """What comes next is no step: the one under way has no end."""
        self._began = None

    def _note(self) -> None:
        now = self._now(), self._in_collectives_s()
        began, self._began = self._began, now
        number = self._step // self._per_execution
        early = self._step <= self._first_step + FIRST_STEPS * self._per_execution
        if began is None or early or number % self._every:
            return
        if len(self._kept) == MOST_STEPS:
            self._every *= 2
            self._kept = [
                each for each in self._kept if not each.step // self._per_execution % self._every
            ]
            if number % self._every:
                return
        passed_s, in_collectives_s = (
            (now[place] - began[place]) / self._per_execution for place in range(2)
        )
        self._kept.append(ComparedStep(self._step, passed_s, None, in_collectives_s))
