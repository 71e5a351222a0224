"""Evaluates windows of steps that have ended, and adds them up.

When a window ends, only the meter is read. It is evaluated later, about once a second: training
waits meanwhile, and the step has emptied the CPU caches, so that evaluating the windows of many
short epochs together takes a fraction of the time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from keras_gpukit.input.wait.calls import Counts, ExampleCounter
from keras_gpukit.input.wait.meters import CallWindow, Meter, PipelineStart, Times, WaitReading
from keras_gpukit.input.wait.totals import StepTotals
from keras_gpukit.records.steps import InputRecord, StepWindow

_SUSPENDED = WaitReading(None, unknown_because="the process was suspended")


class Start(NamedTuple):
    """The start of a pipeline: the times of its first two calls, and what was read after them."""

    times_s: list[float]
    meter: Meter | None
    reading: Any
    seen: PipelineStart | None
    is_counted: bool


class ClosedWindow(NamedTuple):
    """A window that has ended, at `time_s` since the Unix epoch.

    It has the entry and exit times, in turn, of its calls and of the call after them; whether one
    more call raised before the last reading; and the counts of examples at its start and its end.
    """

    times_s: list[float]
    raised: bool
    meter: Meter | None
    readings: tuple[Any, ...]
    suspended: bool
    counts: tuple[Counts, Counts]
    step: int
    time_s: float


class FirstCall(NamedTuple):
    """One of an epoch's first two calls, whose wait the meter knows.

    An epoch of one or two calls has no regular window: the first call, which waits for the
    pipeline's start, is in no window, and a window only ends when the call after it is entered.
    """

    entry_s: float
    exit_s: float
    wait_s: float
    counts: tuple[Counts, Counts]

    @property
    def as_start(self) -> PipelineStart:
        """Wait for the pipeline's first batch, if this is its first call."""
        return PipelineStart(self.wait_s, shuffle_fraction=None)


class ClosedWindows:
    """Keeps what has ended in order, until `evaluate` does so.

    `on_start` is called with the wait for an epoch's first batch and its beginning on the clock. If
    the process was suspended, it is unknown how long the steps waited. `unknown_because` says why
    the current pipeline's wait is unknown, at least in part.
    """

    def __init__(
        self,
        totals: StepTotals,
        *,
        on_window: Callable[[StepWindow], None],
        on_start: Callable[[float, float], None] = lambda wait_s, began_s: None,
        examples: ExampleCounter | None = None,
        suspended_since: Callable[[float], bool] = lambda moment_s: False,
    ) -> None:
        self.unknown_because: str | None = None
        self.suspended_since = suspended_since
        self._totals = totals
        self._on_window = on_window
        self._on_start = on_start
        self._examples = examples
        self._later: deque[Start | ClosedWindow | None] = deque()

    def input(self, meter: Meter | None) -> InputRecord:
        """Returns the input wait of the windows so far."""
        return self._totals.input(meter, self.unknown_because)

    def count_examples(self) -> Counts:
        """Reads the counter of examples."""
        return () if self._examples is None else self._examples.take()

    def evaluate_later(self, ended: Start | ClosedWindow | None) -> None:
        """Keeps the start of a pipeline, or a window; None where another epoch begins."""
        self._later.append(ended)

    def evaluate(self) -> None:
        """Evaluates everything that is kept, and passes the windows to the listener."""
        windows = []
        while self._later:
            ended = self._later.popleft()
            if isinstance(ended, ClosedWindow):
                windows.append(self._window(ended))
            elif isinstance(ended, Start):
                start = ended.seen
                if ended.meter is not None:
                    start = ended.meter.start(ended.reading, _call_window(ended.times_s)) or start
                self.add_start(start, ended.times_s[0], is_counted=ended.is_counted)
            else:
                self._totals.begin_epoch()
        for window in windows:  # only now, since the listener may read the totals
            self._on_window(window)

    def add_start(self, start: PipelineStart | None, began_s: float, *, is_counted: bool) -> None:
        """Adds the start of a pipeline, whose wait may count as that of the epoch's start."""
        self._totals.add_start(start if is_counted else None)
        if start is not None and is_counted:
            self._on_start(start.wait_s, began_s)

    def add_short(self, calls: tuple[FirstCall, ...], step: int, time_s: float) -> None:
        """Evaluates calls of a short epoch, up to a step that returned at a time."""
        # A duration ends at the next call's entry; that of the last call ends when it returns.
        durations_s = np.diff([*(call.entry_s for call in calls), calls[-1].exit_s])
        waits_s = np.array([call.wait_s for call in calls])
        reading = WaitReading(float(waits_s.sum()), waits_s)
        if self.suspended_since(calls[0].entry_s):
            reading = _SUSPENDED
        counts = calls[0].counts[0], calls[-1].counts[1]
        examples = self._examples_in(counts, len(calls), full=False)
        self._on_window(self._added(durations_s, reading, examples, step, time_s))

    def release(self) -> None:
        """Forgets the listener, and everything that is kept."""
        self._later.clear()
        self._on_window = lambda window: None

    def _window(self, ended: ClosedWindow) -> StepWindow:
        calls = _call_window(ended.times_s, ended.raised)
        reading = _SUSPENDED if ended.suspended else WaitReading(None)
        if ended.meter is not None:  # also if the process was suspended: the next window starts
            found = ended.meter.wait_of(ended.readings, calls)
            reading = reading if ended.suspended else found
        examples = self._examples_in(ended.counts, calls.calls)
        # `predict` fetches its batches between the calls.
        in_predict = self._totals.phase == "predict"
        between_s = None if in_predict else float((calls.entries_s[1:] - calls.exits_s).sum())
        return self._added(
            calls.durations_s, reading, examples, ended.step, ended.time_s, between_s
        )

    def _examples_in(
        self, counts: tuple[Counts, Counts], calls: int, *, full: bool = True
    ) -> int | None:
        return self._examples.between(*counts, calls, full=full) if self._examples else None

    def _added(
        self,
        durations_s: Times,
        reading: WaitReading,
        examples: int | None,
        step: int,
        time_s: float,
        between_s: float | None = None,
    ) -> StepWindow:
        """Makes a window of consecutive calls, and adds it to the totals."""
        self.unknown_because = reading.unknown_because or self.unknown_because
        window = StepWindow(
            phase=self._totals.phase,
            time_s=time_s,
            step=step,
            steps=len(durations_s) * self._totals.steps_per_execution,
            duration_s=float(durations_s.sum()),
            input_wait_s=reading.wait_s,
            most_wait_s=reading.most_s,
            examples=examples,
            buffered_batches=reading.buffered_batches,
            between_s=between_s,
        )
        self._totals.add_window(window)
        self._totals.add_calls(durations_s, reading.waits_s)
        return window


def _call_window(calls_s: list[float], raised: bool = False) -> CallWindow:
    """Returns all calls but the last, which begins the next window."""
    times_s = np.fromiter(calls_s, np.float64, len(calls_s))
    return CallWindow(times_s[::2], times_s[1:-2:2], float(times_s[-1]), raised)
