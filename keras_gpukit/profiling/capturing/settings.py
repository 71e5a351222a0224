"""Settings of captures: their triggers and limits."""

from __future__ import annotations

import signal
from collections.abc import Collection
from dataclasses import dataclass, replace

from keras_gpukit.arguments import (
    check_flag,
    check_number,
    check_signal,
    check_steps,
    check_whole,
)

# A capture of more steps takes seconds to gather, and adds no information.
MOST_STEPS = 50


@dataclass(frozen=True, kw_only=True)
class CaptureSettings:
    """Arguments of `Profiler`, which documents them and has their defaults.

    Attributes:
        automatic: Whether the captures that were not asked for are those of `AutomaticCaptures`.
            `Monitor` takes them; a failure of one is recorded and not logged.

    Raises:
        TypeError: If a setting is of the wrong type.
        ValueError: If a setting is out of range.
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

        Args:
            in_cluster: Whether several workers train together. Then only captures that the user
                requested are taken: none at step 20 by default, and none on anomalies.
        """
        if not in_cluster:
            return replace(self, at_steps=(20,)) if self.at_steps is None else self
        steps = self.at_steps or ()
        return replace(self, at_steps=steps, slower=None, stall_rise=None, utilization_drop=None)
