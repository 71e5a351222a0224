"""Base classes of this package's callbacks, which pass Keras' events on to a lifecycle."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Generic, TypeVar

import keras

from keras_gpukit.arguments import check_log_dir
from keras_gpukit.monitoring.lifecycle import Lifecycle
from keras_gpukit.monitoring.session import Session
from keras_gpukit.records.steps import Phase

R = TypeVar("R")


class WatchingCallback(keras.callbacks.Callback, Generic[R]):
    """Base class of callbacks that monitor calls of `fit`, `evaluate` or `predict`.

    No failure in a callback reaches Keras: it is logged once, and the callback is disabled for the
    rest of the call.

    Args:
        log_dir: Everything measured is written to `<log_dir>/gpukit`; None writes nothing.
        optional: Whether `log_dir` may be None.
    """

    # On some backends, Keras runs callbacks in a thread pool, but only if all of them allow it.
    async_safe = True

    def __init__(
        self, log_dir: str | os.PathLike[str] | None = "logs", *, optional: bool = True
    ) -> None:
        super().__init__()
        self._log_dir = check_log_dir(log_dir, optional=optional)
        self._lifecycle = Lifecycle(type(self).__name__, self._log_dir)
        self._summary: R | None = None

    @property
    def log_dir(self) -> Path | None:
        """Log directory; None if nothing is written."""
        return self._log_dir

    @property
    def summary(self) -> R | None:
        """Record of what was measured in the last run; None before the first run."""
        self._lifecycle.end_if_over()
        return self._summary

    def on_train_begin(self, logs: Any = None) -> None:
        """Joins the session of the call."""
        self._enter("fit")

    def on_train_end(self, logs: Any = None) -> None:
        """Makes the summary, and leaves the session."""
        self._lifecycle.exit("fit")

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        """Notes that an epoch begins."""
        self._lifecycle.epoch_begins(epoch)

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Notes that an epoch ends, and with it the current window of steps."""
        self._lifecycle.epoch_ends()

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        """Does nothing; Keras' own method would call another empty method at each step."""

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """Does nothing, for the same reason."""

    def on_test_begin(self, logs: Any = None) -> None:
        """Joins the session of the call, or notes a validation inside it."""
        self._enter("evaluate")

    def on_test_end(self, logs: Any = None) -> None:
        """Makes the summary and leaves the session, or notes that a validation ends."""
        self._lifecycle.exit("evaluate")

    def on_predict_begin(self, logs: Any = None) -> None:
        """Joins the session of the call."""
        self._enter("predict")

    def on_predict_batch_begin(self, batch: int, logs: Any = None) -> None:
        """Notes that `predict` requests a batch, which it fetches outside its step function."""
        if self._lifecycle.session is not None:
            self._lifecycle.session.own_steps.requested()

    def on_predict_end(self, logs: Any = None) -> None:
        """Makes the summary, and leaves the session."""
        self._lifecycle.exit("predict")

    def _begin(self, session: Session, phase: Phase) -> None:
        """Begins a phase. The first phase is the call itself, later ones are validations in it."""
        raise NotImplementedError

    def _end(self, session: Session, phase: Phase) -> None:
        """Ends a phase."""
        raise NotImplementedError

    def _enter(self, phase: Phase) -> None:
        self._lifecycle.enter(self._begin, self._end, self.model, phase)


class StepWatchingCallback(WatchingCallback[R]):
    """Times the steps of the call and of validations in it, and keeps a record of each."""

    def __init__(self, log_dir: str | os.PathLike[str] | None = "logs") -> None:
        super().__init__(log_dir)
        self._validation: R | None = None

    @property
    def validation(self) -> R | None:
        """Record of the validation within the last `fit`; None without one."""
        self._lifecycle.end_if_over()
        return self._validation

    def _record(self, session: Session, phase: Phase) -> R:
        """Writes the record of a phase, and returns it."""
        raise NotImplementedError

    def _begin(self, session: Session, phase: Phase) -> None:
        if phase == session.phase:
            self._summary = self._validation = None
        session.on_window(phase, lambda window: None)

    def _end(self, session: Session, phase: Phase) -> None:
        session.steps_of(phase).restore()
        record = self._record(session, phase)
        if phase == session.phase:
            self._summary = record
        else:
            self._validation = record
