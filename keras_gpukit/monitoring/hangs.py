"""Says while no step of a call ends for long, and what the process does."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from keras_gpukit.errors import Guard
from keras_gpukit.monitoring import thread_activity
from keras_gpukit.records.event import Hang
from keras_gpukit.records.steps import Part
from keras_gpukit.reports import units

if TYPE_CHECKING:
    from keras_gpukit.monitoring.session import Session

LEAST_S = 60.0
"""Minimum time without a step that is reported; our choice."""
LEAST_STEPS = 20
"""Minimum time without a step that is reported, in usual step times; our choice."""


class HangWatch:
    """Reports a time without a step, once while it lasts and once when it is over.

    Parts that are long by nature, such as a validation, are reported by their name too, but not
    again until they take twice as long as before.
    """

    def __init__(
        self,
        session: Session,
        *,
        in_cluster: bool = False,
        now: Callable[[], float] = time.perf_counter,
        process_s: Callable[[], float] = time.process_time,
    ) -> None:
        self._session = session
        self._in_cluster = in_cluster
        self._now = now
        self._process_s = process_s
        self._executions = 0
        self._since_s = now()  # when the last step was seen to end
        self._longest_s: dict[Part, float] = {}
        self._last_look = now(), process_s()
        self._reported: Hang | None = None
        self._reported_part: Part | None = None
        self._again_s = 0.0

    def poll(self) -> None:
        """Looks whether steps go on; called about once a second, on the sampling thread."""
        session, now_s = self._session, self._now()
        (last_s, last_process_s), self._last_look = self._last_look, (now_s, self._process_s())
        executions = session.executions
        if executions != self._executions:
            if self._reported is not None:
                self._tell_end(self._reported, now_s)
            self._executions, self._since_s = executions, now_s
        elif session.suspended_since(self._since_s):
            self._since_s = now_s
        lasted_s = now_s - self._since_s
        if lasted_s < (self._again_s if self._reported else self._limit_s()):
            return
        passed_s = now_s - last_s
        cores = (self._last_look[1] - last_process_s) / passed_s if passed_s > 0 else None
        self._report(lasted_s, cores)

    def _limit_s(self) -> float:
        session = self._session
        steps: int = session.model.steps_per_execution
        usual_s = steps * (session.own_steps.step_time_s or 0.0)
        longest_s = self._longest_s.get(session.wall.part, 0.0)
        return max(LEAST_S, LEAST_STEPS * usual_s, 2 * longest_s)

    def _report(self, lasted_s: float, cores: float | None) -> None:
        session = self._session
        part = session.wall.part
        training = thread_activity.as_stack(session.frame.stack())
        others = thread_activity.stacks_of_others(session.frame.thread)
        activity = thread_activity.describe(
            training, others.values(), part, cores=cores, in_cluster=self._in_cluster
        )
        is_first = self._reported is None
        stacks = thread_activity.shown(training, others)
        began_s, (kind, words, place) = time.time() - lasted_s, activity
        self._reported = Hang(began_s, session.step, words, kind, stacks, input_place=place)
        self._reported_part = part
        self._again_s = 2 * lasted_s
        session.output.record("hang", self._reported, session.step)
        if is_first:
            usual_s = session.own_steps.step_time_s
            usually = "" if usual_s is None else f" (usually {units.duration(usual_s)})"
            _say(f"no step has ended for {units.duration(lasted_s)}{usually}: {words}.")

    def _tell_end(self, hang: Hang, now_s: float) -> None:
        self._reported, lasted_s = None, now_s - self._since_s
        if self._reported_part not in (None, "steps"):
            self._longest_s[self._reported_part] = lasted_s
        over = replace(hang, lasted_s=lasted_s)
        self._session.output.record("hang", over, hang.step)
        self._session.events.hung(self._since_s, now_s)
        _say(f"steps continue after {units.duration(lasted_s)}.")


def _say(text: str) -> None:
    with Guard("Reporting a hang", "It is in the record."):
        stream = sys.stderr
        # In a terminal, Keras' progress bar is on the current line.
        start = "\n" if stream.isatty() else ""
        stream.write(f"{start}keras-gpukit: {text}\n")  # in one piece, which `launch` shows once
        stream.flush()
