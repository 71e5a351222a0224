"""How long the next trials will take, by how long the earlier ones took."""

from __future__ import annotations

import time

from keras_gpukit.experiments.batch_sizes.trainer import LEAST_ROUNDS

# Executions of a trial: most that do not fit fail in the first, but not all. Those of the last
# trials, in each of two epochs, which end with a smaller batch, as those of a fit do.
MOST_STEPS, LEAST_STEPS = 5, 2
LAST_EPOCHS = 2
# Shares of the time that one trial should train for at most, and one of the last trials.
TRIAL_SHARE, LAST_SHARE = 1 / 15, 1 / 9
# Share of the time from which on a first step is slow.
SLOW_START_SHARE = 1 / 18
# Share of the time that one rate is measured for, and at most so many seconds.
RATE_SHARE, RATE_S = 1 / 60, 1.5


class TimePlan:
    """A trial takes a fixed time, to start and to trace, and a time for each example.

    Args:
        seconds: For everything.

    Attributes:
        starts_slowly: Whether the first step in a process takes much of the time.
    """

    def __init__(self, seconds: float) -> None:
        self.starts_slowly = False
        self._seconds = seconds
        self._ends = time.perf_counter() + seconds
        self._fixed_s = self._example_s = self._wait_s = 0.0

    @property
    def left_s(self) -> float:
        """Seconds that are left; negative when time is over."""
        return self._ends - time.perf_counter()

    @property
    def rate_s(self) -> float:
        """How long to measure a rate."""
        return min(RATE_SHARE * self._seconds, RATE_S)

    def note_start(self, took_s: float, first_step_s: float) -> None:
        """Takes in how long a new process took until it had trained one example.

        Args:
            took_s: All of it.
            first_step_s: From when the model was there.
        """
        self._fixed_s = took_s
        self.starts_slowly = first_step_s > SLOW_START_SHARE * self._seconds

    def note(
        self, size: int, executions: int, took_s: float, step_s: float | None, *, goes_on: bool
    ) -> None:
        """Takes in a trial that fits.

        Args:
            size: Its batch size.
            executions: How many it had.
            took_s: How long it took.
            step_s: Seconds of an execution after the first, if that is known.
            goes_on: Whether its process had trained before.
        """
        if step_s is None:
            self._example_s = took_s / (executions * size)
            return
        self._example_s = step_s / size
        if not goes_on:
            self._fixed_s = max(took_s - executions * step_s, 0.0)

    def note_failed(self, took_s: float, *, goes_on: bool) -> None:
        """Takes in a trial that did not fit, which may have waited for memory.

        Args:
            took_s: How long it took.
            goes_on: Whether its process had trained before.
        """
        if not goes_on:
            # It started in that time too.
            self._fixed_s = min(self._fixed_s, took_s)
            took_s -= self._fixed_s
        self._wait_s = max(self._wait_s, took_s)

    def note_rate(self, examples_per_s: float) -> None:
        """Takes in how fast the model trains."""
        self._example_s = 1 / examples_per_s

    def steps(self, size: int) -> int:
        """Executions of a trial: fewer where they are slow."""
        return self._executions(size, TRIAL_SHARE)

    def last_steps(self, size: int) -> int:
        """Full batches in each epoch of one of the last trials: fewer where they are slow."""
        return self._executions(LAST_EPOCHS * size, LAST_SHARE)

    def trial_s(self, size: int, *, goes_on: bool) -> float:
        """How long a trial takes, whether it fits or not.

        Args:
            size: Its batch size.
            goes_on: Whether its process has trained before.
        """
        start_s = 0.0 if goes_on else self._fixed_s
        if self.starts_slowly:  # it is as long as the last ones
            return self.last_s(size) - self._fixed_s + start_s + self._wait_s
        return start_s + max(self.steps(size) * self._step_s(size), self._wait_s)

    def last_s(self, size: int) -> float:
        """How long one of the last trials takes."""
        executions = LAST_EPOCHS * (self.last_steps(size) + 1)
        return self._fixed_s + executions * self._step_s(size)

    def measuring_s(self, size: int) -> float:
        """How long it takes to measure a rate."""
        return self._step_s(size) + max(self.rate_s, (LEAST_ROUNDS + 1) * self._step_s(size))

    def _step_s(self, size: int) -> float:
        return self._example_s * size

    def _executions(self, examples: int, share: float) -> int:
        step_s = self._step_s(examples)
        affordable = int(share * self._seconds / step_s) if step_s else MOST_STEPS
        return max(LEAST_STEPS, min(affordable, MOST_STEPS))
