"""Connects a callback to monitored calls, so that its failures never end training."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Any

from keras_gpukit.errors import GPUKitError, Guard
from keras_gpukit.monitoring.open_session import OpenSession, open_session
from keras_gpukit.monitoring.session import Session
from keras_gpukit.records.steps import Phase

OnPhase = Callable[[Session, Phase], None]


class Lifecycle:
    """Joins the session of a call, follows the call's phases, and leaves the session.

    A failure of the callback is logged once, and the callback is disabled for the rest of the call.

    Attributes:
        parts: Lifecycles that this one begins and ends. They do not join sessions themselves.
    """

    def __init__(self, name: str, log_dir: Path | None) -> None:
        self.parts: tuple[Lifecycle, ...] = ()
        self._name = name
        self._log_dir = log_dir
        # Set only during a call. Otherwise the two would keep each other and the model alive.
        self._end: OnPhase | None = None
        self._open: OpenSession | None = None
        self._outer: Phase = "fit"
        self._begun = False
        self._guard = self._new_guard()

    @property
    def session(self) -> Session | None:
        """Session that was joined; None outside a call."""
        return None if self._open is None else self._open.session

    def guard(self, action: Callable[..., None], *args: Any, once: bool | None = True) -> None:
        """Calls an action, and disables the callback if the action fails.

        Args:
            action: Function to call.
            *args: Arguments of the function.
            once: Whether its overhead occurs once per call (True) or repeatedly (False). None if
                the action reports its own overhead.
        """
        if self._guard.failed_because is not None:
            return
        began = perf_counter()
        session = self.session
        with self._guard:
            action(*args)
        session = session or self.session
        if session is not None and once is not None:
            session.cost.add(perf_counter() - began, once=once)

    def end_if_over(self) -> None:
        """Leaves the session of a call that an exception has ended, which Keras does not report."""
        if self._open is not None:
            self._open.end_if_over()

    def enter(self, begin: OnPhase, end: OnPhase, model: Any, phase: Phase) -> None:
        """Begins a phase: joins the session of the call, or notes a validation inside it."""
        self.end_if_over()
        if self._open is not None and (phase == self._outer or not self._open.is_open):
            # The previous call ended without notice, or an interrupt came while we left it.
            self._open.abort()
            self._open = None
        if self._open is None:
            for each in (self, *self.parts):
                each._guard = each._new_guard()
            self._outer, self._end = phase, end
            self.guard(self._join, model, phase)
        session = self.session
        if session is not None:
            if phase != session.phase:
                session.validation_begins()
            self._begun = False
            self.guard(begin, session, phase, once=phase == session.phase)
            self._begun = True

    def exit(self, phase: Phase) -> None:
        """Ends a phase: leaves the session if it is the call itself."""
        session, end = self.session, self._end
        if session is None or end is None:
            return
        if phase == self._outer:
            self._leave()
        else:
            self.guard(end, session, phase, once=False)
            session.validation_ends()

    def epoch_begins(self, epoch: int) -> None:
        """Notes that an epoch begins."""
        if (session := self.session) is not None:
            session.epoch_begins(epoch)

    def epoch_ends(self) -> None:
        """Notes that an epoch ends, and with it the current window of steps."""
        if (session := self.session) is not None:
            self.guard(session.epoch_ends, once=None)

    def _new_guard(self) -> Guard:
        return Guard(self._name, "It is disabled for the rest of this run.")

    def _join(self, model: Any, phase: Phase) -> None:
        import keras

        if keras.backend.backend() != "tensorflow":
            # There is nothing to measure, and calling TensorFlow would allocate the GPUs' memory.
            raise GPUKitError(
                f"it supports the TensorFlow backend only, and this is {keras.backend.backend()}"
            )
        self._open = open_session(model, self._log_dir, phase)
        self._open.join(self._leave)

    def _leave(self) -> None:
        opened, end = self._open, self._end
        if opened is None or end is None:
            return
        # An interrupt may have come while the call began or ended. Failures that result from it
        # are not logged, since the user already sees the interrupt.
        for each in (self, *self.parts):
            each._guard.logs = self._begun
        self._begun = False
        session = opened.session
        session.leaves(self._outer)
        self.guard(session.steps_of(self._outer).restore)
        self.guard(end, session, self._outer)
        self._open = self._end = None
        opened.leave(self._leave)
