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
    """Reads a clock where a step begins and where the next one does, and keeps what passed.

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
        number = self._step // self._per_execution
        began, self._began = self._began, None
        ends = began is not None and number % self._every == 0
        begins = (number + 1) % self._every == 0
        if not (ends or begins):
            return  # in a long run nearly always: reading the clock costs some microseconds
        now = self._now(), self._in_collectives_s()
        if begins:
            self._began = now
        early = self._step <= self._first_step + FIRST_STEPS * self._per_execution
        if ends and not early:
            assert began is not None
            self._keep(number, now[0] - began[0], now[1] - began[1])

    def _keep(self, number: int, passed_s: float, in_collectives_s: float) -> None:
        if len(self._kept) == MOST_STEPS:
            self._every *= 2
            self._kept = [
                each for each in self._kept if each.step // self._per_execution % self._every == 0
            ]
            if number % self._every:
                return
        each_s = passed_s / self._per_execution, in_collectives_s / self._per_execution
        self._kept.append(ComparedStep(self._step, each_s[0], None, each_s[1]))
