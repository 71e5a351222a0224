"""The session of the running call: found by the callbacks that share it, ended with the call."""

from __future__ import annotations

import atexit
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from keras_gpukit.records.steps import Phase
from keras_gpukit.watching.session import Session


class OpenSession:
    """A session and the callbacks that share it; when the last one leaves, it is closed.

    Args:
        session: The session.
    """

    def __init__(self, session: Session) -> None:
        self.session = session
        self.is_open = True
        self._leave: list[Callable[[], None]] = []
        self._lock = threading.RLock()
        session.every_second("whether the run goes on", lambda: self.end_if_over(wait=False))

    def join(self, leave: Callable[[], None]) -> None:
        """Takes a callback in.

        Args:
            leave: Called when the run is over and Keras has not told the callback.
        """
        self._leave.append(leave)

    def leave(self, leave: Callable[[], None]) -> None:
        """Lets a callback go; with the last one the session ends."""
        with self._lock:
            if leave in self._leave:
                self._leave.remove(leave)
            if not self._leave:
                self._close()

    def end_if_over(self, *, wait: bool = True) -> None:
        """Ends a session whose call ended by an exception, which Keras does not report.

        Args:
            wait: Whether to wait for another thread that is ending it; that one may in turn wait
                for the sampling thread.
        """
        if self._lock.acquire(blocking=wait):
            try:
                if self.is_open and self.session.is_over:
                    self.abort()
            finally:
                self._lock.release()

    def abort(self) -> None:
        """Ends the session early."""
        with self._lock:
            if self.is_open:
                self.session.ending = "interrupted"
                for leave in tuple(self._leave):
                    leave()
                self._close()

    def _close(self) -> None:
        if not self.is_open:
            return
        try:
            self._close_session()
        except BaseException:  # an interrupt; what is closed already closes again without harm
            self._close_session()
            raise

    def _close_session(self) -> None:
        self.session.close()
        self.is_open = False
        key = id(self.session.model), self.session.output.log_dir
        if _open.get(key) is self:
            del _open[key]


_open: dict[tuple[int, Path | None], OpenSession] = {}


def open_session(model: Any, log_dir: Path | None, phase: Phase) -> OpenSession:
    """Returns the session of the running call, started if need be.

    A validation inside `fit` belongs to the session of that `fit`.
    """
    # Also those with other log directories: what a call that failed left around the model's step
    # functions must not be watched again.
    for opened in tuple(_open.values()):
        if opened.session.model is model:
            opened.end_if_over()
    key = id(model), log_dir
    if key not in _open:
        began = time.perf_counter()
        # Known before it starts anything: should an interrupt come, the next call ends it.
        _open[key] = OpenSession(Session(model, log_dir, phase))
        _open[key].session.start()
        _open[key].session.add_cost(time.perf_counter() - began, once=True)
    return _open[key]


def is_watched(model: Any) -> bool:
    """Whether a call of this model is being watched."""
    return any(
        opened.session.model is model and opened.is_open and not opened.session.is_over
        for opened in tuple(_open.values())
    )


@atexit.register
def end_all() -> None:
    """Ends every session."""
    for opened in tuple(_open.values()):
        opened.abort()
