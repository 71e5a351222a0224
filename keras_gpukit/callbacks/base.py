"""What every callback of this package does alike: join the session, never harm the run."""

from __future__ import annotations

import os
from collections.abc import Callable
from time import perf_counter
from typing import Any, Generic, TypeVar

import keras

from keras_gpukit.arguments import check_log_dir
from keras_gpukit.callbacks.session import Session, current_session
from keras_gpukit.errors import GPUKitError, give_up
from keras_gpukit.records.steps import Phase

R = TypeVar("R")


class WatchingCallback(keras.callbacks.Callback, Generic[R]):
    """Base of the callbacks: begins and ends with `fit`, `evaluate` or `predict`.

    Nothing that goes wrong in here reaches Keras: it is said once, and the callback goes quiet.

    Args:
        log_dir: Everything measured is written to `<log_dir>/gpukit`; None writes nothing.

    Raises:
        TypeError: If `log_dir` is no path.
        ValueError: If `log_dir` is empty or a file.
    """

    # On backends that run callbacks in a thread pool, this one must not hold them up.
    async_safe = True

    def __init__(self, log_dir: str | os.PathLike[str] | None = "logs") -> None:
        super().__init__()
        self._log_dir = check_log_dir(log_dir)
        self._session: Session | None = None
        self._outer: Phase = "fit"
        self._quiet = False
        self._batch_ended_s = 0.0
        self._summary: R | None = None

    @property
    def summary(self) -> R | None:
        """What was measured; None before the first run."""
        self.end_if_over()
        return self._summary

    def begin(self, session: Session, phase: Phase) -> None:
        """A phase begins; the first one is the call itself, others are inside it."""
        raise NotImplementedError

    def end(self, session: Session, phase: Phase) -> None:
        """A phase ends."""
        raise NotImplementedError

    def end_if_over(self) -> None:
        """Sums up a run that ended by an exception, which Keras tells nobody."""
        if self._session is not None:
            self._session.end_if_over()

    def revive(self) -> None:
        """Forgets that something failed in an earlier run."""
        self._quiet = False

    def guard(self, action: Callable[..., None], *args: Any, once: bool | None = True) -> None:
        """Calls, and should it fail says so once and goes quiet.

        Args:
            action: What is called.
            *args: With what.
            once: Whether its cost comes once a run; else it comes again and again. None where the
                action itself tells its cost.
        """
        if self._quiet:
            return
        began = perf_counter()
        session = self._session
        try:
            action(*args)
        except Exception as error:
            self._quiet = True
            give_up(type(self).__name__, error, "It watches no more in this run.")
        session = session or self._session
        if session is not None and once is not None:
            session.add_cost(perf_counter() - began, once=once)

    def on_train_begin(self, logs: Any = None) -> None:
        """Joins the session."""
        self._enter("fit")

    def on_train_end(self, logs: Any = None) -> None:
        """Sums up."""
        self._exit("fit")

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        """Notes that a pipeline begins."""
        if self._session is not None:
            self._session.wall.turn("epoch start")

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Ends the window of steps."""
        if self._session is not None:
            self.guard(self._pause, self._session, once=None)
            self._session.wall.turn("callbacks")

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        """Nothing; Keras' own calls another function that does nothing, at each step."""

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """Notes when: what comes between the last batch and the epoch's end is Keras' own."""
        # Kept here: to go to where it is needed would cost more than the look at the clock.
        self._batch_ended_s = perf_counter()

    def on_test_begin(self, logs: Any = None) -> None:
        """Joins the session, or notes a validation inside it."""
        self._enter("evaluate")

    def on_test_end(self, logs: Any = None) -> None:
        """Sums up."""
        self._exit("evaluate")

    def on_predict_begin(self, logs: Any = None) -> None:
        """Joins the session."""
        self._enter("predict")

    def on_predict_batch_begin(self, batch: int, logs: Any = None) -> None:
        """Notes that a batch is asked for: `predict` fetches it outside its step function."""
        if self._session is not None:
            self._session.step_functions.request_meter.requested()

    def on_predict_end(self, logs: Any = None) -> None:
        """Sums up."""
        self._exit("predict")

    def _enter(self, phase: Phase) -> None:
        self.end_if_over()
        if self._session is not None and phase == self._outer:
            # The call before ended without a word.
            self._session.abort()
        if self._session is None:
            self.revive()
            self._outer = phase
            self.guard(self._join, phase)
        session = self._session
        if session is not None:
            if phase != session.phase:
                self._pause(session)
                session.wall.turn("validation")
            self.guard(self.begin, session, phase, once=phase == session.phase)

    def _join(self, phase: Phase) -> None:
        if keras.backend.backend() != "tensorflow":
            # Not only nothing to measure: asking TensorFlow would have it take the GPUs' memory.
            raise GPUKitError(
                f"it watches the TensorFlow backend, and this is {keras.backend.backend()}"
            )
        self._session = current_session(self.model, self._log_dir, phase)
        self._session.join(self._leave)

    def _pause(self, session: Session) -> None:
        session.wall.batch_ended_s = self._batch_ended_s
        session.step_functions.pause(session.phase)

    def _exit(self, phase: Phase) -> None:
        session = self._session
        if session is None:
            return
        if phase == self._outer:
            self._leave(session)
        else:
            self.guard(self.end, session, phase, once=False)
            session.wall.turn("other")

    def _leave(self, session: Session) -> None:
        self._session = None
        if self._outer == session.phase:
            session.wall.end()
        else:
            session.wall.turn("callbacks")
        self.guard(session.step_functions.unwatch, self._outer)
        self.guard(self.end, session, self._outer)
        session.leave(self._leave)
