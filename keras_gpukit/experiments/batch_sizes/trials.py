"""Where trials run: in this process, or each in a process of its own."""

from __future__ import annotations

from typing import Protocol

from keras_gpukit.experiments.batch_sizes.job import Job
from keras_gpukit.experiments.batch_sizes.prepared_processes import PreparedProcesses
from keras_gpukit.experiments.batch_sizes.standard_error import without_allocator_log
from keras_gpukit.experiments.batch_sizes.trainer import Survey, Trained, Trainer, Work
from keras_gpukit.experiments.batch_sizes.trial_process import TrialProcess
from keras_gpukit.records.diagnosis import Rate


class Trials(Protocol):
    """Trains with batch sizes; each method raises `DoesNotFit` where memory ran out."""

    def survey(self) -> Survey:
        """As `Trainer.survey`."""

    def train(self, batch_size: int, work: Work) -> Trained:
        """As `Trainer.train`."""

    def rate(self, batch_size: int, seconds: float) -> tuple[Rate, int | None]:
        """As `Trainer.rate`."""

    def renew(self, *, again: bool = False) -> None:
        """Begins with memory that nothing was taken of, where that is possible.

        Args:
            again: Whether this will be asked for once more.
        """

    def close(self) -> None:
        """Ends what was started."""


class InThisProcess(Trainer):
    """Trials next to all else that this process holds; nothing of it can be given back."""

    def train(self, batch_size: int, work: Work) -> Trained:
        """As `Trainer.train`."""
        with without_allocator_log():
            return super().train(batch_size, work)

    def rate(self, batch_size: int, seconds: float) -> tuple[Rate, int | None]:
        """As `Trainer.rate`."""
        with without_allocator_log():
            return super().rate(batch_size, seconds)

    def renew(self, *, again: bool = False) -> None:
        """Nothing can be renewed."""

    def close(self) -> None:
        """Nothing was started."""


class InOwnProcesses:
    """Trials in processes that hold nothing else.

    Args:
        job: What they train.
    """

    def __init__(self, job: Job) -> None:
        self._job = job
        self._prepared = PreparedProcesses()
        self._current = TrialProcess(job, self._prepared.context)
        self._next: TrialProcess | None = None

    def survey(self) -> Survey:
        """As `Trainer.survey`."""
        found: Survey = self._current.call("survey")
        return found

    def train(self, batch_size: int, work: Work) -> Trained:
        """As `Trainer.train`."""
        trained: Trained = self._current.call("train", batch_size, work)
        return trained

    def rate(self, batch_size: int, seconds: float) -> tuple[Rate, int | None]:
        """As `Trainer.rate`."""
        rate: tuple[Rate, int | None] = self._current.call("rate", batch_size, seconds)
        return rate

    def renew(self, *, again: bool = False) -> None:
        """Goes on in another process; the one after it may load TensorFlow meanwhile."""
        self._current.close()
        self._current = self._next or TrialProcess(self._job, self._prepared.context)
        self._next = TrialProcess(self._job, self._prepared.context) if again else None

    def close(self) -> None:
        """Ends the processes."""
        for process in (self._current, self._next):
            if process is not None:
                process.close()
        self._prepared.close()
