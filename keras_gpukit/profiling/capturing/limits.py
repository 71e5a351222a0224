"""Limits that decide whether one more capture may be taken."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from math import inf
from pathlib import Path

from keras_gpukit.profiling.capturing.profile_files import profiles_bytes
from keras_gpukit.profiling.capturing.settings import CaptureSettings
from keras_gpukit.records.capture import Trigger

# Triggers that fire on their own, and again and again if a run never settles.
ANOMALIES: tuple[Trigger, ...] = ("step time", "stall", "utilization")


class Limits:
    """Limits the captures of a run: their number, disk space, and the pause after an anomaly.

    Args:
        log_dir: Log directory, which may contain profiles of earlier runs.
        settings: Settings with the limits.
        now: The clock, in seconds.
    """

    def __init__(
        self,
        log_dir: Path,
        settings: CaptureSettings,
        now: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._log_dir = log_dir
        self._settings = settings
        self._now = now
        self._taken = 0
        self._cool_from_s = -inf

    @functools.cached_property
    def room_bytes(self) -> int:
        """Disk space left for profiles; first computed when a capture is due."""
        return self._settings.max_bytes - profiles_bytes(self._log_dir)

    def note_end(self, trigger: Trigger) -> None:
        """Notes that a capture has ended."""
        self._taken += 1
        if trigger in ANOMALIES:
            self._cool_from_s = self._now()

    def note_size(self, profile_bytes: int | None) -> None:
        """Subtracts a written profile from the disk space left; None if none was written."""
        self.room_bytes -= profile_bytes or 0

    def refusal(self, trigger: Trigger) -> str | None:
        """Returns why a capture may not be taken; None if it may."""
        settings = self._settings
        if self._taken >= settings.max_captures:
            return f"max_captures={settings.max_captures} were taken"
        if self.room_bytes <= 0:
            return f"the profiles take max_bytes={settings.max_bytes:,}"
        if trigger in ANOMALIES and self._now() < self._cool_from_s + settings.cooldown_s:
            return f"one of the kind ended less than cooldown_s={settings.cooldown_s:g} before"
        return None
