"""Settings of captures, and the limits that decide whether one more may be taken."""

from __future__ import annotations

import functools
from collections.abc import Collection
from dataclasses import dataclass, replace
from pathlib import Path

from keras_gpukit.arguments import check_flag, check_number, check_steps, check_whole
from keras_gpukit.profiling.capturing.profile_files import profiles_bytes

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


class Limits:
    """Limits the captures of a run: their number and disk space."""

    def __init__(self, log_dir: Path, settings: CaptureSettings) -> None:
        self._log_dir = log_dir
        self._settings = settings
        self._taken = 0

    @functools.cached_property
    def room_bytes(self) -> int:
        """Disk space left for profiles; first computed when a capture is due."""
        return self._settings.max_bytes - profiles_bytes(self._log_dir)

    def note_end(self) -> None:
        """Notes that a capture has ended."""
        self._taken += 1

    def note_size(self, profile_bytes: int | None) -> None:
        """Subtracts a written profile from the disk space left; None if none was written."""
        self.room_bytes -= profile_bytes or 0

    def refusal(self) -> str | None:
        """Returns why a capture may not be taken; None if it may."""
        settings = self._settings
        if self._taken >= settings.max_captures:
            return f"max_captures={settings.max_captures} were taken"
        if self.room_bytes <= 0:
            return f"the profiles take max_bytes={settings.max_bytes:,}"
        return None
