"""Keeps the times of some steps and their time in collectives: the same steps on every worker."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from typing import Any

from keras_gpukit.input.wait.calls import StepFunction
from keras_gpukit.records.worker_comparison import ComparedStep

MOST_STEPS = 256
"""Maximum number of kept steps. When it is reached, every other step is dropped, so the kept steps
cover the whole run evenly."""
FIRST_STEPS = 3
"""Number of calls of the step function at the start of a run that are left out. They trace the
step, fill buffers and warm up."""


class StepShares:
    """Measures steps from the start of one to the start of the next, and keeps some of them.

    The selection depends only on the numbers of the steps, so all workers keep the same steps.

    Args:
        in_collectives_s: Returns the seconds spent in collectives so far.
        steps_per_execution: Number of steps per call of the step function.
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
        """Kept steps; none if no time in collectives was seen."""
        seen = any(step.collective_s > 0 for step in self._kept)
        return tuple(self._kept) if seen else ()

    def wrap(self, step_function: StepFunction) -> StepFunction:
        """Wraps the step function, so that the start of each call is noted."""

        @functools.wraps(step_function)
        def noted(batches: Any) -> Any:
            self._note()
            outputs = step_function(batches)
            self._step += self._per_execution
            return outputs

        return noted

    def pause(self) -> None:
        """Notes that no step follows directly, so the current step's duration is unknown."""
        self._began = None

    def _note(self) -> None:
        number = self._step // self._per_execution
        began, self._began = self._began, None
        ends = began is not None and number % self._every == 0
        begins = (number + 1) % self._every == 0
        if not (ends or begins):
            return  # nearly always in a long run: reading the clock takes some microseconds
        now = self._now(), self._in_collectives_s()
        if begins:
            self._began = now
        early = self._step <= self._first_step + FIRST_STEPS * self._per_execution
        if ends and not early:
            assert began is not None
            self._keep(number, now[0] - began[0], now[1] - began[1])

    def _keep(self, number: int, passed_s: float, in_collectives_s: float) -> None:
        if len(self._kept) == MOST_STEPS:
            every = 2 * self._every
            kept = [each for each in self._kept if each.step // self._per_execution % every == 0]
            self._every, self._kept = every, kept
            if number % self._every:
                return
        each_s = passed_s / self._per_execution, in_collectives_s / self._per_execution
        self._kept.append(ComparedStep(self._step, each_s[0], None, each_s[1]))
