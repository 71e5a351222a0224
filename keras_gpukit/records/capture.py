"""Profiles that were captured in a run: when, why, and what that cost."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Trigger = Literal["steps", "time", "file", "signal", "step time", "stall", "utilization"]
"""What asked for a capture: given steps, the clock, a file or a signal on demand; or a figure that
left what it was in the run until then."""


@dataclass(frozen=True)
class CaptureRecord:
    """A capture of a few steps.

    Attributes:
        run: Its name in TensorBoard's Profile tab.
        trigger: What asked for it.
        reason: The same in words, with figures.
        first_step: The first captured step; the model's very first one is 1, also in a later run.
        steps: Steps that were captured whole.
        time_s: When it began, in seconds since the Unix epoch.
        duration_s: From the first captured step's begin to the last one's end.
        held_up_s: How long training stood still to begin and to end it.
        path: The profile's file, relative to the log directory; None without one.
        profile_bytes: Its size.
        ended_early_because: Why it has fewer steps than it was to have, where it has.
        incomplete_because: What TensorFlow's profiler said that it could not record, and what to
            do about it.
        failed_because: Why there is no profile.
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


@dataclass(frozen=True)
class MissedCapture:
    """A capture that was asked for and not started.

    Attributes:
        trigger: What asked for it.
        reason: The same in words.
        step: The step that was to be the first one, counted alike.
        because: Why it was not started.
    """

    trigger: Trigger
    reason: str
    step: int
    because: str


@dataclass(frozen=True)
class ProfilerRecord:
    """What became of the captures of a run.

    Attributes:
        captures: In the order they were taken, those that failed among them.
        missed: Those asked for and not started; at most the first 20.
        unknown_because: Why nothing could be captured in this run, where nothing could.
    """

    captures: tuple[CaptureRecord, ...] = ()
    missed: tuple[MissedCapture, ...] = ()
    unknown_because: str | None = None
