"""Profiles captured during a run: when, why, and at what cost."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Trigger = Literal["steps", "time", "file", "signal", "steady", "step time", "stall", "utilization"]
"""Source of a request for a capture: given steps, the clock, a file or a signal on demand, or
`Monitor` by itself, once steps were steady. The last three are anomalies: a figure left the range
that it had in the run until then."""


@dataclass(frozen=True)
class CaptureRecord:
    """A capture of a few steps.

    Attributes:
        run: Name of the capture in TensorBoard's Profile tab.
        trigger: Source of the request.
        reason: Why it was requested, in words and with figures.
        first_step: Global step of the first captured step. The model's very first step is 1, and a
            later run continues the count.
        steps: Number of steps that were captured completely.
        time_s: When the capture began, in seconds since the Unix epoch.
        duration_s: Time from the start of the first captured step to the end of the last one, in
            seconds.
        held_up_s: How long training was paused to start the capture, in seconds. Another thread
            stops it and writes the file; that is not included.
        path: Path of the profile, relative to the log directory; None if there is no profile.
        profile_bytes: Size of the profile; None if there is no profile.
        ended_early_because: Why the capture has fewer steps than planned; None if it has all of
            them.
        incomplete_because: Reason that TensorFlow's profiler gave for what it could not record, and
            what to do about it; None if it recorded everything.
        failed_because: Why there is no profile; None if there is one.
        stall_fraction: For a capture that `Monitor` took by itself: share of its steps' time in
            which the run waited for input and computed nothing, 0 to 1, from the profile.
        live_stall_fraction: Share of the same steps' time that `InputStall` measured as wait for
            input during the run, or the lower end of its range; None if the two cannot be
            compared.
        live_most_stall_fraction: Upper end of the range of `live_stall_fraction`; None if that is
            no range.
        unread_because: Why the run did not read a profile that it took by itself; None otherwise.
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
    """A capture that was requested but not started.

    Attributes:
        trigger: Source of the request.
        reason: Why it was requested, in words.
        step: Global step that would have been the first one, counted as in `CaptureRecord`.
        because: Why the capture was not started.
    """

    trigger: Trigger
    reason: str
    step: int
    because: str


@dataclass(frozen=True)
class ProfilerRecord:
    """All captures of a run: those taken and those missed.

    Attributes:
        captures: Captures in order, including those that failed.
        missed: Captures that were requested but not started; at most the first 20.
        unknown_because: Why no capture was possible in this run; None if captures were possible.
        none_automatic_because: Why `Monitor` took none by itself; None if it took or missed one.
    """

    captures: tuple[CaptureRecord, ...] = ()
    missed: tuple[MissedCapture, ...] = ()
    unknown_because: str | None = None
    none_automatic_because: str | None = None
