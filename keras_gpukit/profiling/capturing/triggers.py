"""Triggers of captures: given steps, or a file."""

from __future__ import annotations

import stat
import time
from collections.abc import Callable, Collection
from math import inf
from pathlib import Path


def next_scheduled(at_steps: Collection[int], every_steps: int | None, step: int) -> float:
    """Returns the first step after `step` that is given or a multiple of a number, or infinity."""
    given = min((each for each in at_steps if each > step), default=inf)
    return given if every_steps is None else min(given, (step // every_steps + 1) * every_steps)


class RequestFile:
    """File that requests a capture by existing. It is removed once it was seen.

    Workers of a cluster that share the folder all respond to the same file. So it stays for a
    while, each worker responds to it once, and touching it again asks all of them again.
    """

    def __init__(
        self, path: Path, stays_s: float = 0.0, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._path = path
        self._stays_s = stays_s
        self._now = now
        self._answered: tuple[int, int] | None = None
        self._answered_s = 0.0

    def due(self) -> str | None:
        """Returns a reason if the file exists and was not answered before, else None."""
        try:
            found = self._path.stat(follow_symlinks=False)
        except (FileNotFoundError, NotADirectoryError):
            return None
        if stat.S_ISDIR(found.st_mode):
            return None  # a folder of that name is not a request
        request = found.st_ino, found.st_mtime_ns
        is_new = request != self._answered
        if is_new:
            self._answered, self._answered_s = request, self._now()
        if self._now() - self._answered_s >= self._stays_s:
            self.withdraw()
        return f"{self._path.name} was touched" if is_new else None

    def withdraw(self) -> None:
        """Removes the file if it was answered; another worker may have removed it already."""
        if self._answered is not None:
            self._path.unlink(missing_ok=True)
            self._answered = None
