"""Where the wall time of a watched call goes."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Literal

from keras_gpukit.records.steps import TimeBreakdown

Part = Literal["callbacks", "epoch start", "first step", "steps", "validation", "other"]


class WallTime:
    """Gives each moment of a call to one part.

    Steps and what is between them are one part here: how much of it was inside the step function
    is added by the code that times it.

    Args:
        part: The part the call begins with.
        now: The clock, in seconds.
        on_part: Called with each part that ended, and when it began and ended.
    """

    def __init__(
        self,
        part: Part,
        now: Callable[[], float] = time.perf_counter,
        on_part: Callable[[Part, float, float], None] = lambda part, began_s, ended_s: None,
    ) -> None:
        self._now = now
        self._on_part = on_part
        self._part: Part | None = part
        self._began_s = self._since_s = now()
        self._ended_s: float | None = None
        self._spent_s: dict[Part, float] = {}
        self._inside_s = 0.0
        self._tracing_s = 0.0
        self._tracings = 0
        self.by_callback: Callable[[float, float], dict[str, float]] = lambda wall_s, between_s: {}
        """Gives the seconds of each callback's class, of the call's and those between steps."""
        self.batch_ended_s = 0.0
        """When Keras told of the last batch's end; set before `end_steps`."""

    @property
    def total_s(self) -> float:
        """The call's time so far, or all of it."""
        return (self._now() if self._ended_s is None else self._ended_s) - self._began_s

    @property
    def is_over(self) -> bool:
        """Whether the call is over."""
        return self._ended_s is not None

    def spent_s(self, part: Part) -> float:
        """Time of a part that is over."""
        return self._spent_s.get(part, 0.0)

    @property
    def tracings(self) -> int:
        """How many times the step was traced again so far."""
        return self._tracings

    @property
    def part(self) -> Part | None:
        """The part under way."""
        return self._part

    def turn(self, part: Part, at_s: float | None = None) -> None:
        """The part under way ends and another begins.

        Args:
            part: Which.
            at_s: When, if not now.
        """
        if self._ended_s is None:
            self._close(self._now() if at_s is None else at_s)
            self._part = part

    def end_steps(self, at_s: float) -> None:
        """The steps of an epoch ended; what callbacks do with its last batch is theirs.

        Args:
            at_s: When the step function returned for the last time.
        """
        self.turn("callbacks", at_s)
        if self.batch_ended_s > at_s:
            self.turn("other", self.batch_ended_s)

    def add_inside(self, seconds: float) -> None:
        """Counts time of the part "steps" that was inside the step function."""
        self._inside_s += seconds

    def add_tracing(self, seconds: float) -> None:
        """Counts an epoch's first step, inside the step function, as one that traced.

        How long it waited for its batch meanwhile is not known.
        """
        self._tracing_s += seconds
        self._tracings += 1

    def add_epoch_wait(self, seconds: float, began_s: float) -> None:
        """Counts time inside the step function as part of an epoch's start.

        Args:
            seconds: How long.
            began_s: When the epoch's steps began, and it with them.
        """
        self._inside_s -= seconds
        self._spend("steps", -seconds)
        self._spend("epoch start", seconds)
        self._on_part("epoch start", began_s, began_s + seconds)

    def end(self) -> None:
        """The call is over."""
        if self._ended_s is None:
            self._ended_s = self._now()
            self._close(self._ended_s)

    def breakdown(self, wait_s: float | None, until_s: float | None = None) -> TimeBreakdown:
        """Returns the parts.

        Args:
            wait_s: Part of the time inside the step function that was spent waiting for input;
                None if unknown.
            until_s: In the steps: until when their time inside the step function was counted. None
                if the call is over.
        """
        spent, total_s = dict(self._spent_s), self.total_s
        if until_s is not None:
            total_s = until_s - self._began_s
            spent["steps"] = spent.get("steps", 0.0) + until_s - self._since_s
        between_s = max(spent.get("steps", 0.0) - self._inside_s, 0.0)
        tracing_s = min(max(self._tracing_s, 0.0), self._inside_s)
        steps_s = self._inside_s - tracing_s
        wait_s = None if wait_s is None else min(wait_s, steps_s)
        parts = {
            "callbacks_s": spent.get("callbacks", 0.0) + between_s,
            "epoch_start_s": spent.get("epoch start", 0.0),
            "first_step_s": spent.get("first step", 0.0),
            "validation_s": spent.get("validation", 0.0),
        }
        return TimeBreakdown(
            wall_s=total_s,
            input_s=wait_s,
            compute_s=None if wait_s is None else steps_s - wait_s,
            other_s=max(total_s - self._inside_s - sum(parts.values()), 0.0),
            tracing_s=tracing_s,
            tracings=self._tracings,
            by_callback=self.by_callback(total_s, between_s),
            **parts,
        )

    def _close(self, at_s: float) -> None:
        if self._part is not None:
            self._spend(self._part, max(at_s - self._since_s, 0.0))
            self._on_part(self._part, self._since_s, at_s)
        self._since_s = at_s

    def _spend(self, part: Part, seconds: float) -> None:
        self._spent_s[part] = self._spent_s.get(part, 0.0) + seconds
