"""Profiles captured during a run: when, why, and at what cost."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Trigger = Literal["steps", "time", "file", "signal", "steady", "step time"]
"""Source of a request for a capture: given steps, the clock, a file or a signal on demand, or
`Monitor` by itself, once steps were steady, and if they became slower later ("step time")."""


@dataclass(frozen=True)
class CaptureRecord:
    """A capture of a few steps.

    Attributes:
        first_step: Global step of the first captured step. The model's very first step is 1, and a
            later run continues the count.
        duration_s: Time from the start of the first captured step to the end of the last one.
        held_up_s: How long training was paused to start the capture. Another thread stops it and
            writes the file; that is not included.
        incomplete_because: Reason that TensorFlow's profiler gave for what it could not record, and
            what to do about it.
        stall_fraction: For a capture that `Monitor` took by itself: share of its steps' time in
            which the run waited for input and computed nothing, from the profile.
        live_stall_fraction: Share of the same steps' time that `InputStall` measured as wait for
            input during the run, or the lower end of its range; None if the two cannot be compared.
        live_most_stall_fraction: Upper end of that range; None if it is no range.
        unread_because: Why the run did not read a profile that it took by itself.
    """

    run: str
    trigger: Trigger
    reason: str
    first_step: int
    steps: int
    time_s: float
    duration_s: float
    held_up_s: float
    path: str | None = None
    profile_bytes: int | None = None
    ended_early_because: str | None = None
    incomplete_because: str | None = None
    failed_because: str | None = None
    stall_fraction: float | None = None
    live_stall_fraction: float | None = None
    live_most_stall_fraction: float | None = None
    unread_because: str | None = None


@dataclass(frozen=True)
class MissedCapture:
    """A capture that was requested but not started."""

    trigger: Trigger
    reason: str
    step: int
    because: str


@dataclass(frozen=True)
class ProfilerRecord:
    """All captures of a run: those taken and those missed.

    Attributes:
        missed: Captures that were requested but not started; at most the first 20.
        none_automatic_because: Why `Monitor` took none by itself; None if it took or missed one.
    """

    captures: tuple[CaptureRecord, ...] = ()
    missed: tuple[MissedCapture, ...] = ()
    unknown_because: str | None = None
    none_automatic_because: str | None = None
