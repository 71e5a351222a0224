"""Finds or starts the session of the running call, and ends it with the call."""

from __future__ import annotations

import atexit
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from keras_gpukit.monitoring.session import Session
from keras_gpukit.records.steps import Phase


class OpenSession:
    """A session and the callbacks that share it. It is closed when the last callback leaves."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.is_open = True
        self._leave: list[Callable[[], None]] = []
        self._lock = threading.RLock()
        session.every_second("whether the run goes on", lambda: self.end_if_over(wait=False))

    def join(self, leave: Callable[[], None]) -> None:
        """Adds a callback."""
        self._leave.append(leave)

    def leave(self, leave: Callable[[], None]) -> None:
        """Removes a callback, and closes the session if it was the last one."""
        with self._lock:
            if leave in self._leave:
                self._leave.remove(leave)
            if not self._leave:
                self._close()

    def end_if_over(self, *, wait: bool = True) -> None:
        """Ends the session if an exception has ended its call, which Keras does not report.

        Args:
            wait: Whether to wait for another thread that is ending the session. The sampling thread
                must not wait, since that other thread may be waiting for it.
        """
        if self._lock.acquire(blocking=wait):
            try:
                if self.is_open and self.session.is_over:
                    self.abort()
            finally:
                self._lock.release()

    def abort(self, because: str | None = None) -> None:
        """Ends the session early, with the ending "interrupted".

        Args:
            because: Cause, such as "SIGTERM"; None for an exception, or if unknown.
        """
        with self._lock:
            if self.is_open:
                self.session.ending = "interrupted"
                if because is not None:
                    self.session.errors.ended_by(because, self.session.wall.part)
                for leave in tuple(self._leave):
                    leave()
                self._close()

    def _close(self) -> None:
        if not self.is_open:
            return
        try:
            self._close_session()
        except BaseException:  # an interrupt; closing again what is already closed is harmless
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
    """Returns the session of the running call; starts one if none is open.

    A validation inside `fit` belongs to the session of that `fit`.
    """
    # Also sessions with other log directories: wrappers that a failed call left around the model's
    # step functions must not be monitored again.
    for opened in tuple(_open.values()):
        if opened.session.model is model:
            opened.end_if_over()
    key = id(model), log_dir
    if key not in _open:
        # Registered before it starts anything: if an interrupt comes, the next call ends it.
        _open[key] = OpenSession(Session(model, log_dir, phase))
        _open[key].session.start()
    return _open[key]


def is_watched(model: Any) -> bool:
    """Whether a call of this model is being monitored."""
    return any(
        opened.session.model is model and opened.is_open and not opened.session.is_over
        for opened in tuple(_open.values())
    )


@atexit.register
def end_all(because: str | None = None) -> None:
    """Ends every session; see `OpenSession.abort`."""
    for opened in tuple(_open.values()):
        opened.abort(because)
