"""Runs trials in this process or in separate processes."""

from __future__ import annotations

from typing import Protocol

from keras_gpukit.records.diagnosis import Rate
from keras_gpukit.trials.batch_sizes.job import Job
from keras_gpukit.trials.batch_sizes.prepared_processes import PreparedProcesses
from keras_gpukit.trials.batch_sizes.standard_error import without_allocator_log
from keras_gpukit.trials.batch_sizes.trainer import Survey, Trained, Trainer, Work
from keras_gpukit.trials.batch_sizes.trial_process import TrialProcess


class Trials(Protocol):
    """Interface for trials; training methods raise `DoesNotFit` if memory runs out."""

    def survey(self) -> Survey:
        """Same as `Trainer.survey`."""

    def train(self, batch_size: int, work: Work) -> Trained:
        """Same as `Trainer.train`."""

    def rate(self, batch_size: int, seconds: float) -> tuple[Rate, int | None]:
        """Same as `Trainer.rate`."""

    def renew(self, *, again: bool = False) -> None:
        """Continues with unused memory, in a new process, if possible.

        Args:
            again: Whether `renew` will be called once more.
        """

    def close(self) -> None:
        """Ends all processes that were started."""


class InThisProcess(Trainer):
    """Runs trials in this process, next to all that it holds in memory.

    Memory that TensorFlow took cannot be released.
    """

    def train(self, batch_size: int, work: Work) -> Trained:
        """Same as `Trainer.train`, without the log of the allocator."""
        with without_allocator_log():
            return super().train(batch_size, work)

    def rate(self, batch_size: int, seconds: float) -> tuple[Rate, int | None]:
        """Same as `Trainer.rate`, without the log of the allocator."""
        with without_allocator_log():
            return super().rate(batch_size, seconds)

    def renew(self, *, again: bool = False) -> None:
        """Does nothing, since the memory of this process cannot be released."""

    def close(self) -> None:
        """Does nothing, since no process was started."""


class InOwnProcesses:
    """Runs trials in separate processes that hold nothing else in memory.

    Args:
        job: The model, examples and device settings for the trials.
    """

    def __init__(self, job: Job) -> None:
        self._job = job
        self._prepared = PreparedProcesses()
        self._current = TrialProcess(job, self._prepared.context)
        self._next: TrialProcess | None = None

    def survey(self) -> Survey:
        """Same as `Trainer.survey`."""
        found: Survey = self._current.call("survey")
        return found

    def train(self, batch_size: int, work: Work) -> Trained:
        """Same as `Trainer.train`."""
        trained: Trained = self._current.call("train", batch_size, work)
        return trained

    def rate(self, batch_size: int, seconds: float) -> tuple[Rate, int | None]:
        """Same as `Trainer.rate`."""
        rate: tuple[Rate, int | None] = self._current.call("rate", batch_size, seconds)
        return rate

    def renew(self, *, again: bool = False) -> None:
        """Continues in a new process; with `again`, also starts the one after it in advance."""
        self._current.close()
        self._current = self._next or TrialProcess(self._job, self._prepared.context)
        self._next = TrialProcess(self._job, self._prepared.context) if again else None

    def close(self) -> None:
        """Ends the trial processes and the fork server."""
        for process in (self._current, self._next):
            if process is not None:
                process.close()
        self._prepared.close()
