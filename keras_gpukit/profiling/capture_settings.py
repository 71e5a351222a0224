"""Settings of captures, what triggers one, and the limits that decide whether one more is taken."""

from __future__ import annotations

import functools
import os
import stat
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from math import inf
from pathlib import Path

from keras_gpukit.arguments import check_flag, check_number, check_steps, check_whole
from keras_gpukit.records.names import PROFILE_SUFFIX, PROFILES

# A capture of more steps takes seconds to gather, and adds no information.
MOST_STEPS = 50


@dataclass(frozen=True, kw_only=True)
class CaptureSettings:
    """Arguments of `Profiler`, which documents them and has their defaults.

    Attributes:
        automatic: Whether the captures that were not asked for are those of `AutomaticCaptures`.
            `Monitor` takes them; a failure of one is recorded and not logged.
    """

    steps: int
    at_steps: Collection[int] | None
    every_steps: int | None
    every_minutes: float | None
    on_demand: bool
    max_captures: int
    max_bytes: int
    automatic: bool = False

    def __post_init__(self) -> None:
        check_whole("steps", self.steps, most=MOST_STEPS)
        if self.at_steps is not None:
            check_steps("at_steps", self.at_steps)
        check_whole("every_steps", self.every_steps, optional=True)
        above_0 = "a number above 0"
        check_number("every_minutes", self.every_minutes, above_0, lambda v: v > 0, optional=True)
        check_flag("on_demand", self.on_demand)
        check_whole("max_captures", self.max_captures)
        check_whole("max_bytes", self.max_bytes)

    def resolved(self, *, in_cluster: bool) -> CaptureSettings:
        """Returns the settings with defaults filled in for one process, or a worker of a cluster.

        Of workers that train together only captures that the user requested are taken.
        """
        if self.at_steps is not None:
            return self
        return replace(self, at_steps=() if in_cluster else (20,))


def profile_files(folder: Path) -> Iterator[tuple[Path, os.stat_result]]:
    """Yields the profile files in a folder of profiles, each with its status from `os.lstat`.

    Only regular files are included: a link may lead anywhere, and reading from a pipe may block
    forever. Files that cannot be examined are skipped.
    """
    for path in folder.glob(f"*/*{PROFILE_SUFFIX}"):
        with suppress(OSError):  # removed meanwhile, perhaps
            status = path.lstat()
            if stat.S_ISREG(status.st_mode):
                yield path, status


class Limits:
    """Limits the captures of a run: their number and disk space. `taken` are those that ended."""

    def __init__(self, log_dir: Path, settings: CaptureSettings) -> None:
        self._log_dir = log_dir
        self._settings = settings
        self.taken = 0

    @functools.cached_property
    def room_bytes(self) -> int:
        """Disk space left for profiles; first computed when a capture is due."""
        profiles = profile_files(self._log_dir / PROFILES)
        return self._settings.max_bytes - sum(status.st_size for _, status in profiles)

    def refusal(self) -> str | None:
        """Returns why a capture may not be taken; None if it may."""
        settings = self._settings
        if self.taken >= settings.max_captures:
            return f"max_captures={settings.max_captures} were taken"
        if self.room_bytes <= 0:
            return f"the profiles take max_bytes={settings.max_bytes:,}"
        return None


def next_scheduled(at_steps: Collection[int], every_steps: int | None, step: int) -> float:
    """Returns the first step after `step` that is given or a multiple of a number, or infinity."""
    given = min((at_step for at_step in at_steps if at_step > step), default=inf)
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
