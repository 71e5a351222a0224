"""How one callback takes part in watched calls without ever failing them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Any

from keras_gpukit.errors import GPUKitError, give_up
from keras_gpukit.records.steps import Phase
from keras_gpukit.watching.session import Session, current_session

OnPhase = Callable[[Session, Phase], None]


class Member:
    """Joins the session of a call, follows its phases, and leaves it.

    A failure is logged once, and the member is disabled for the rest of the call.

    Args:
        name: Whose failures they are.
        log_dir: Where the call is written, or None.
        begin: Called when a phase begins; the first one is the call itself, others are inside it.
        end: Called when a phase ends.
    """

    def __init__(self, name: str, log_dir: Path | None, begin: OnPhase, end: OnPhase) -> None:
        self.session: Session | None = None
        self.batch_ended_s = 0.0
        self._name = name
        self._log_dir = log_dir
        self._begin, self._end = begin, end
        self._outer: Phase = "fit"
        self.parts: tuple[Member, ...] = ()
        """Members that this one begins and ends, and that join no session of their own."""
        self._disabled = False
        # An interrupt may have come while the call began or ended. What fails afterwards for that
        # reason is not reported: the interrupt is.
        self._orderly = True
        self._begun = False

    def revive(self) -> None:
        """Forgets that something failed in an earlier call."""
        for member in (self, *self.parts):
            member._disabled = False
            member._orderly = True

    def guard(self, action: Callable[..., None], *args: Any, once: bool | None = True) -> None:
        """Calls an action, and should it fail logs that once and is disabled.

        Args:
            action: What is called.
            *args: With what.
            once: Whether its cost comes once a call or again and again. None where the action
                reports its own cost.
        """
        if self._disabled:
            return
        began = perf_counter()
        session = self.session
        try:
            action(*args)
        except Exception as error:
            self._disabled = True
            if self._orderly:
                give_up(self._name, error, "It is disabled for the rest of this run.")
        session = session or self.session
        if session is not None and once is not None:
            session.add_cost(perf_counter() - began, once=once)

    def end_if_over(self) -> None:
        """Ends a call that ended by an exception, which Keras does not report."""
        if self.session is not None:
            self.session.end_if_over()

    def enter(self, model: Any, phase: Phase) -> None:
        """A phase begins: joins the call's session, or notes a validation inside it."""
        self.end_if_over()
        if self.session is not None and (phase == self._outer or not self.session.is_open):
            # The call before ended without notice, or an interrupt came while this one left it.
            self.session.abort()
            self.session = None
        if self.session is None:
            self.revive()
            self._outer = phase
            self.guard(self._join, model, phase)
        session = self.session
        if session is not None:
            if phase != session.phase:
                session.pause(self.batch_ended_s)
                session.wall.turn("validation")
            self._begun = False
            self.guard(self._begin, session, phase, once=phase == session.phase)
            self._begun = True

    def exit(self, phase: Phase) -> None:
        """A phase ends."""
        session = self.session
        if session is None:
            return
        if phase == self._outer:
            self._leave(session)
        else:
            self.guard(self._end, session, phase, once=False)
            session.wall.turn("other")

    def epoch_begins(self) -> None:
        """A pipeline starts."""
        if self.session is not None:
            self.session.wall.turn("epoch start")

    def epoch_ends(self) -> None:
        """The window of steps ends."""
        if self.session is not None:
            self.guard(self.session.pause, self.batch_ended_s, once=None)
            self.session.wall.turn("callbacks")

    def _join(self, model: Any, phase: Phase) -> None:
        import keras

        if keras.backend.backend() != "tensorflow":
            # Not only nothing to measure: asking TensorFlow would have it take the GPUs' memory.
            raise GPUKitError(
                f"it watches the TensorFlow backend, and this is {keras.backend.backend()}"
            )
        self.session = current_session(model, self._log_dir, phase)
        self.session.join(self._leave)

    def _leave(self, session: Session) -> None:
        for member in (self, *self.parts):
            member._orderly = self._begun
        self._begun = False
        if self._outer == session.phase:
            session.wall.end()
        else:
            session.wall.turn("callbacks")
        self.guard(session.end_phase, self._outer)
        self.guard(self._end, session, self._outer)
        self.session = None
        session.leave(self._leave)
