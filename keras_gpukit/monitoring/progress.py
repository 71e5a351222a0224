"""Records the progress of a running call, and its input wait so far.

A run in progress has no summary yet, and a process that is killed never writes one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from keras_gpukit.records.steps import InputRecord, Progress, StepWindow, ThroughputRecord

if TYPE_CHECKING:
    from keras_gpukit.monitoring.session import Session

NOTE_EVERY_S = 10.0
"""Seconds between two records of progress while nothing changes. A run whose record has not grown
for longer is over."""
FIRST_INPUT_S = 4.0
"""Run time at which the pipeline's stages are first looked at, after some windows of steps."""
INPUT_EVERY = 1.5
"""Factor by which the run time grows from one look to the next, so looks become rare."""
LEAST_PAUSE_S, MOST_PAUSE_S = 8.0, 300.0


class ProgressNotes:
    """Writes what the call is doing whenever that changes, and at least every ten seconds."""

    def __init__(
        self,
        session: Session,
        params: Mapping[str, Any] | None,
        now: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._session = session
        self._epochs = _count((params or {}).get("epochs"))
        self._epoch_steps = _count((params or {}).get("steps"))
        self._now = now
        self._written: tuple[object, ...] = ()
        self._written_s = 0.0

    def note(self) -> None:
        """Writes a record if something has changed, or the last one is ten seconds old."""
        session, now_s = self._session, self._now()
        part, epoch = session.wall.part, session.epoch
        is_new = self._written != (part, epoch) or now_s - self._written_s >= NOTE_EVERY_S
        if not is_new:
            return
        self._written, self._written_s = (part, epoch), now_s
        step = session.step
        in_fit = session.phase == "fit"
        epochs = self._epochs if in_fit else None
        progress = Progress(session.phase, part, step, epoch, epochs, self._epoch_steps)
        session.output.record("progress", progress, step)


class InputSoFar:
    """Writes the input wait and the pipeline's stages so far, less and less often.

    The figures are taken between two steps, when a window of steps ends. Finding the stages takes
    milliseconds, so this is done on the sampling thread.
    """

    def __init__(
        self,
        session: Session,
        complete: Callable[[InputRecord], InputRecord],
        now: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._session = session
        self._complete = complete
        self._now = now
        self._began_s = now()
        self._due_s = self._began_s + FIRST_INPUT_S
        self._taken: tuple[ThroughputRecord, InputRecord] | None = None

    def on_window(self, window: StepWindow) -> None:
        """Takes the figures when a window ends, if due; called on the training thread."""
        now_s = self._now()
        if now_s < self._due_s or self._session.wall.is_over:
            return
        pause_s = (INPUT_EVERY - 1) * (now_s - self._began_s)
        self._due_s = now_s + min(max(pause_s, LEAST_PAUSE_S), MOST_PAUSE_S)
        steps = self._session.own_steps
        self._taken = steps.throughput(), steps.input_so_far()

    def write(self) -> None:
        """Writes the figures that were taken; called on the sampling thread."""
        taken, self._taken = self._taken, None
        if taken is not None:
            throughput, so_far = taken
            record = self._complete(self._session.own_steps.with_stages(so_far))
            self._session.output.record("throughput", throughput, self._session.step)
            self._session.output.record("input", record, self._session.step)


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) and value > 0 else None
