"""Settings of captures, and the limits that decide whether one more may be taken."""

from __future__ import annotations

import functools
import signal
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from math import inf
from pathlib import Path

from keras_gpukit.arguments import (
    check_flag,
    check_number,
    check_signal,
    check_steps,
    check_whole,
)
from keras_gpukit.profiling.capturing.profile_files import profiles_bytes
from keras_gpukit.records.capture import Trigger

# A capture of more steps takes seconds to gather, and adds no information.
MOST_STEPS = 50
# Triggers that fire on their own, and again and again if a run never settles.
ANOMALIES: tuple[Trigger, ...] = ("step time", "stall", "utilization")


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
    signal_number: signal.Signals | int | None
    slower: float | None
    stall_rise: float | None
    utilization_drop: float | None
    max_captures: int
    max_bytes: int
    cooldown_s: float
    automatic: bool = False

    def __post_init__(self) -> None:
        check_whole("steps", self.steps, most=MOST_STEPS)
        if self.at_steps is not None:
            check_steps("at_steps", self.at_steps)
        check_whole("every_steps", self.every_steps, optional=True)
        above_0, above_1 = "a number above 0", "a number above 1"
        check_number("every_minutes", self.every_minutes, above_0, lambda v: v > 0, optional=True)
        check_flag("on_demand", self.on_demand)
        check_signal("signal_number", self.signal_number)
        check_number("slower", self.slower, above_1, lambda v: v > 1, optional=True)
        for name in ("stall_rise", "utilization_drop"):
            fraction, within = getattr(self, name), "a number above 0 and below 1"
            check_number(name, fraction, within, lambda v: 0 < v < 1, optional=True)
        check_whole("max_captures", self.max_captures)
        check_whole("max_bytes", self.max_bytes)
        check_number("cooldown_s", self.cooldown_s, "a number from 0 on", lambda v: v >= 0)

    @property
    def request_signal(self) -> signal.Signals | None:
        """Signal that requests a capture; None if no signal does."""
        return None if self.signal_number is None else signal.Signals(self.signal_number)

    def resolved(self, *, in_cluster: bool) -> CaptureSettings:
        """Returns the settings with defaults filled in for one process, or a worker of a cluster.

        Of workers that train together only captures that the user requested are taken: none at step
        20 by default, and none on anomalies.
        """
        if not in_cluster:
            return replace(self, at_steps=(20,)) if self.at_steps is None else self
        steps = self.at_steps or ()
        return replace(self, at_steps=steps, slower=None, stall_rise=None, utilization_drop=None)


class Limits:
    """Limits the captures of a run: their number, disk space, and the pause after an anomaly."""

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
