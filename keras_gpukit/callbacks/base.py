"""Base classes of this package's callbacks, which share the session of the running call."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Any, Generic, TypeVar

import keras

from keras_gpukit.arguments import check_log_dir
from keras_gpukit.errors import GPUKitError, Guard
from keras_gpukit.monitoring.session import Session, open_session
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
        self._summary: R | None = None
        # Set only during a call. Otherwise the two would keep each other and the model alive.
        self._session: Session | None = None
        self._outer: Phase = "fit"
        self._begun = False
        self._guard = self._new_guard()

    @property
    def log_dir(self) -> Path | None:
        """Log directory; None if nothing is written."""
        return self._log_dir

    @property
    def summary(self) -> R | None:
        """Record of what was measured in the last run; None before the first run."""
        self._end_if_over()
        return self._summary

    def on_train_begin(self, logs: Any = None) -> None:
        """Joins the session of the call."""
        self._enter("fit")

    def on_train_end(self, logs: Any = None) -> None:
        """Makes the summary, and leaves the session."""
        self._exit("fit")

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        """Notes that an epoch begins."""
        if self._session is not None:
            self._session.steps.epoch_begins(epoch)

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Notes that an epoch ends, and with it the current window of steps."""
        if self._session is not None:
            self._guarded(self._session.steps.epoch_ends, once=None)

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        """Does nothing; Keras' own method would call another empty method at each step."""

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """Does nothing, for the same reason."""

    def on_test_begin(self, logs: Any = None) -> None:
        """Joins the session of the call, or notes a validation inside it."""
        self._enter("evaluate")

    def on_test_end(self, logs: Any = None) -> None:
        """Makes the summary and leaves the session, or notes that a validation ends."""
        self._exit("evaluate")

    def on_predict_begin(self, logs: Any = None) -> None:
        """Joins the session of the call."""
        self._enter("predict")

    def on_predict_batch_begin(self, batch: int, logs: Any = None) -> None:
        """Notes that `predict` requests a batch, which it fetches outside its step function."""
        if self._session is not None:
            self._session.steps.own.requested()

    def on_predict_end(self, logs: Any = None) -> None:
        """Makes the summary, and leaves the session."""
        self._exit("predict")

    def begin_part(self, session: Session, phase: Phase) -> None:
        """Begins a phase as a part of another callback, which joins the session for both."""
        if phase == session.phase:
            self._guard = self._new_guard()
        self._guarded(self._begin, session, phase)

    def end_part(self, session: Session, phase: Phase, *, logs: bool) -> None:
        """Ends a phase as a part of another callback, and logs a failure if that does."""
        self._guard.logs = logs
        self._guarded(self._end, session, phase)

    def _begin(self, session: Session, phase: Phase) -> None:
        """Begins a phase. The first phase is the call itself, later ones are validations in it."""
        raise NotImplementedError

    def _end(self, session: Session, phase: Phase) -> None:
        """Ends a phase."""
        raise NotImplementedError

    def _guarded(self, action: Callable[..., None], *args: Any, once: bool | None = True) -> None:
        """Calls an action, and disables the callback if the action fails.

        Its overhead occurs once per call or repeatedly; `once` is None if it reports that itself.
        """
        if self._guard.failed_because is not None:
            return
        began, session = perf_counter(), self._session
        with self._guard:
            action(*args)
        session = session or self._session
        if session is not None and once is not None:
            session.cost.add(perf_counter() - began, once=once)

    def _new_guard(self) -> Guard:
        return Guard(type(self).__name__, "It is disabled for the rest of this run.")

    def _end_if_over(self) -> None:
        """Leaves the session of a call that an exception has ended, which Keras does not report."""
        if self._session is not None:
            self._session.end_if_over()

    def _enter(self, phase: Phase) -> None:
        """Begins a phase: joins the session of the call, or notes a validation inside it."""
        self._end_if_over()
        if self._session is not None and (phase == self._outer or not self._session.is_open):
            # The previous call ended without notice, or an interrupt came while we left it.
            self._session.abort()
            self._session = None
        if self._session is None:
            self._guard, self._outer = self._new_guard(), phase
            self._guarded(self._join, phase)
        session = self._session
        if session is not None:
            if phase != session.phase:
                session.steps.validation_begins()
            self._begun = False
            self._guarded(self._begin, session, phase, once=phase == session.phase)
            self._begun = True

    def _join(self, phase: Phase) -> None:
        if keras.backend.backend() != "tensorflow":
            # There is nothing to measure, and calling TensorFlow would allocate the GPUs' memory.
            raise GPUKitError(
                f"it supports the TensorFlow backend only, and this is {keras.backend.backend()}"
            )
        self._session = open_session(self.model, self._log_dir, phase)
        self._session.join(self._leave)

    def _exit(self, phase: Phase) -> None:
        """Ends a phase: leaves the session if it is the call itself."""
        session = self._session
        if session is None:
            return
        if phase == self._outer:
            self._leave()
        else:
            self._guarded(self._end, session, phase, once=False)
            session.steps.validation_ends()

    def _leave(self) -> None:
        session = self._session
        if session is None:
            return
        # An interrupt may have come while the call began or ended. Failures that result from it
        # are not logged, since the user already sees the interrupt.
        self._guard.logs, self._begun = self._begun, False
        session.ends(self._outer)
        self._guarded(session.steps.of(self._outer).restore)
        self._guarded(self._end, session, self._outer)
        self._session = None
        session.leave(self._leave)


class StepWatchingCallback(WatchingCallback[R]):
    """Times the steps of the call and of validations in it, and keeps a record of each."""

    def __init__(self, log_dir: str | os.PathLike[str] | None = "logs") -> None:
        super().__init__(log_dir)
        self._validation: R | None = None

    @property
    def validation(self) -> R | None:
        """Record of the validation within the last `fit`; None without one."""
        self._end_if_over()
        return self._validation

    def _record(self, session: Session, phase: Phase) -> R:
        """Writes the record of a phase, and returns it."""
        raise NotImplementedError

    def _begin(self, session: Session, phase: Phase) -> None:
        if phase == session.phase:
            self._summary = self._validation = None
        session.steps.on_window(phase, lambda window: None)

    def _end(self, session: Session, phase: Phase) -> None:
        session.steps.of(phase).restore()
        record = self._record(session, phase)
        if phase == session.phase:
            self._summary = record
        else:
            self._validation = record
