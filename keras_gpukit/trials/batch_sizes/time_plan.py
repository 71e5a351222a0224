"""Estimates the duration of the next trials from the duration of earlier ones."""

from __future__ import annotations

import time

from keras_gpukit.trials.batch_sizes.trainer import LEAST_ROUNDS

# Executions of the train function per trial: most sizes that do not fit fail in the first one, but
# not all. The last trials run this many full batches in each of their epochs. Each epoch then ends
# with a smaller batch, as in `fit`.
MOST_STEPS, LEAST_STEPS = 5, 2
LAST_EPOCHS = 2
# Maximum share of the total time for which a trial trains, and for which a last trial does.
TRIAL_SHARE, LAST_SHARE = 1 / 15, 1 / 9
# A first step that takes a larger share of the total time is slow.
SLOW_START_SHARE = 1 / 18
# Duration of measuring a rate: share of the total time, and maximum seconds.
RATE_SHARE, RATE_S = 1 / 60, 1.5


class TimePlan:
    """Plans trials by a model of their duration: a fixed start-up time and a time per example.

    The start-up time covers starting the process and tracing the step.

    Args:
        seconds: Total time for the search.

    Attributes:
        starts_slowly: Whether the first step in a process takes a large share of the total time.
    """

    def __init__(self, seconds: float) -> None:
        self.starts_slowly = False
        self._seconds = seconds
        self._ends = time.perf_counter() + seconds
        self._fixed_s = self._example_s = self._wait_s = 0.0

    @property
    def left_s(self) -> float:
        """Remaining seconds; negative if time has run out."""
        return self._ends - time.perf_counter()

    @property
    def rate_s(self) -> float:
        """Seconds for which to measure a rate."""
        return min(RATE_SHARE * self._seconds, RATE_S)

    def note_start(self, took_s: float, first_step_s: float) -> None:
        """Records how long a new process took to train one example.

        Args:
            took_s: Seconds from the start of the process.
            first_step_s: Seconds from when the model was ready.
        """
        self._fixed_s = took_s
        self.starts_slowly = first_step_s > SLOW_START_SHARE * self._seconds

    def note(
        self, size: int, executions: int, took_s: float, step_s: float | None, *, goes_on: bool
    ) -> None:
        """Records the duration of a trial that passed.

        Args:
            size: Batch size of the trial.
            executions: Number of executions of the train function.
            took_s: Duration of the trial in seconds.
            step_s: Seconds per execution after the first; None if unknown.
            goes_on: Whether the process of the trial had trained before.
        """
        if step_s is None:
            self._example_s = took_s / (executions * size)
            return
        self._example_s = step_s / size
        if not goes_on:
            self._fixed_s = max(took_s - executions * step_s, 0.0)

    def note_failed(self, took_s: float, *, goes_on: bool) -> None:
        """Records the duration of a trial that failed, which may have waited for memory.

        Args:
            took_s: Duration of the trial in seconds.
            goes_on: Whether the process of the trial had trained before.
        """
        if not goes_on:
            # The duration includes the start of the process.
            self._fixed_s = min(self._fixed_s, took_s)
            took_s -= self._fixed_s
        self._wait_s = max(self._wait_s, took_s)

    def note_rate(self, examples_per_s: float) -> None:
        """Records the measured rate of training, in examples/s."""
        self._example_s = 1 / examples_per_s

    def steps(self, size: int) -> int:
        """Returns the number of executions for a trial; slow executions get fewer."""
        return self._executions(size, TRIAL_SHARE)

    def last_steps(self, size: int) -> int:
        """Returns the number of full batches per epoch of a last trial; slow ones get fewer."""
        return self._executions(LAST_EPOCHS * size, LAST_SHARE)

    def trial_s(self, size: int, *, goes_on: bool) -> float:
        """Returns the expected duration of a trial in seconds, whether it fits or not.

        Args:
            size: Batch size of the trial.
            goes_on: Whether the process of the trial has trained before.
        """
        start_s = 0.0 if goes_on else self._fixed_s
        if self.starts_slowly:  # trials then do as much work as the last trials
            return self.last_s(size) - self._fixed_s + start_s + self._wait_s
        return start_s + max(self.steps(size) * self._step_s(size), self._wait_s)

    def last_s(self, size: int) -> float:
        """Returns the expected duration of a last trial in seconds."""
        executions = LAST_EPOCHS * (self.last_steps(size) + 1)
        return self._fixed_s + executions * self._step_s(size)

    def measuring_s(self, size: int) -> float:
        """Returns the expected seconds for measuring the rate of a batch size."""
        return self._step_s(size) + max(self.rate_s, (LEAST_ROUNDS + 1) * self._step_s(size))

    def _step_s(self, size: int) -> float:
        return self._example_s * size

    def _executions(self, examples: int, share: float) -> int:
        step_s = self._step_s(examples)
        affordable = int(share * self._seconds / step_s) if step_s else MOST_STEPS
        return max(LEAST_STEPS, min(affordable, MOST_STEPS))
