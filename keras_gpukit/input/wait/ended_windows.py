"""Evaluates windows of steps that have ended, and adds them up.

Training waits during the evaluation, which is slow because the step has emptied the CPU caches.
With short epochs, many windows end within a second: evaluating them together takes a fraction of
the time.
"""

from __future__ import annotations

import functools
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from keras_gpukit.input.wait.examples import Counts, ExampleCounter
from keras_gpukit.input.wait.meters import PipelineStart, Stretch, Times, WaitReading
from keras_gpukit.input.wait.totals import StepTotals
from keras_gpukit.input.wait.wall_time import WallTime
from keras_gpukit.records.steps import Phase, StepWindow


class EndedWindow(NamedTuple):
    """Values that must be read at the moment when a window ends.

    Attributes:
        times_s: Entry and exit times, alternating, of its calls and of the call after them.
        raised: Whether one more call raised before the last reading; see `Stretch`.
        read: Function that returns the wait of the window's calls.
        counts: Counts of examples at its start and at its end.
        step: Global step at its end.
        time_s: Time of its end, in seconds since the Unix epoch.
    """

    times_s: list[float]
    raised: bool
    read: Callable[[Stretch], WaitReading]
    counts: tuple[Counts, Counts]
    step: int
    time_s: float


class EndedWindows:
    """Queues windows and pipeline starts in order; `work_out` evaluates them and adds them up.

    Args:
        phase: "fit", "evaluate" or "predict".
        steps_per_execution: Number of steps in one call.
        on_window: Called with each window that was evaluated.
        wall: Accounts for the call's wall time; None for a phase inside the call.
        examples: Counts examples; None if they are not counted.

    Attributes:
        totals: Totals of the windows evaluated so far.
    """

    def __init__(
        self,
        phase: Phase,
        steps_per_execution: int,
        on_window: Callable[[StepWindow], None],
        wall: WallTime | None,
        examples: ExampleCounter | None,
    ) -> None:
        self.totals = StepTotals(phase, steps_per_execution)
        self._phase = phase
        self._steps_per_execution = steps_per_execution
        self._on_window = on_window
        self._wall = wall
        self._examples = examples
        self._later: deque[Callable[[], StepWindow | None]] = deque()

    def begin_epoch(self) -> None:
        """Notes that the next windows belong to another epoch."""
        self._later.append(self.totals.begin_epoch)

    def start(
        self,
        times_s: list[float],
        read: Callable[[Stretch], PipelineStart | None],
        *,
        counts: bool,
    ) -> None:
        """Queues the start of a pipeline.

        Args:
            times_s: Entry and exit times, alternating, of the pipeline's first two calls.
            read: Function that takes the first call, and returns the wait for the first batch.
            counts: Whether that wait is counted as the pipeline's start.
        """

        def add() -> None:
            self._add_start(read(self._stretch(times_s)), times_s[0], counts)

        self._later.append(add)

    def start_alone(self, start: PipelineStart | None, began_s: float, *, counts: bool) -> None:
        """Queues the start of a pipeline that had a single call.

        Args:
            start: Wait for the first batch; None if unknown.
            began_s: When the call was entered, on the clock.
            counts: Whether that wait is counted as the pipeline's start.
        """
        self._later.append(lambda: self._add_start(start, began_s, counts))

    def end(self, window: EndedWindow) -> None:
        """Queues a window."""
        self._later.append(functools.partial(self._make, window))

    def end_short(
        self,
        durations_s: Times,
        reading: WaitReading,
        examples: int | None,
        step: int,
        time_s: float,
    ) -> None:
        """Queues the calls of a short epoch, which no further call follows.

        Args:
            durations_s: Duration of each call, in seconds. Shape (calls,).
            reading: Wait of the calls.
            examples: Number of examples in the calls; None if unknown.
            step: Global step after the calls.
            time_s: Time after the calls, in seconds since the Unix epoch.
        """
        add = functools.partial(self._add, reading, durations_s, examples, step, time_s)
        self._later.append(add)

    def work_out(self) -> None:
        """Evaluates everything queued so far, and passes the windows to the listener."""
        windows = []
        while self._later:
            window = self._later.popleft()()
            if window is not None:
                windows.append(window)
        for window in windows:  # only now, since the listener may read the totals
            self._on_window(window)

    def release(self) -> None:
        """Forgets the listener, and everything that is still queued."""
        self._later.clear()
        self._on_window = lambda window: None

    def _stretch(self, calls_s: list[float], raised: bool = False) -> Stretch:
        """Returns all calls but the last, which begins the next window; counts the time inside."""
        times_s = np.fromiter(calls_s, np.float64, len(calls_s))
        stretch = Stretch(times_s[::2], times_s[1:-2:2], float(times_s[-1]), raised)
        if self._wall is not None:
            self._wall.add_inside(float((stretch.exits_s - stretch.entries_s[:-1]).sum()))
        return stretch

    def _add_start(self, start: PipelineStart | None, began_s: float, counts: bool) -> None:
        self.totals.distribution.gap()
        if start is not None and counts:
            self.totals.starts.add(start)
            if self._wall is not None:
                self._wall.add_epoch_wait(start.wait_s, began_s)

    def _make(self, window: EndedWindow) -> StepWindow:
        stretch = self._stretch(window.times_s, window.raised)
        return self._add(
            window.read(stretch),
            stretch.durations_s,
            self._counted(window, len(stretch.durations_s)),
            window.step,
            window.time_s,
            between_s=self._between_s(stretch),
            calls_after=1,
            after_s=stretch.next_exit_s - float(stretch.entries_s[-1]),
        )

    def _counted(self, window: EndedWindow, calls: int) -> int | None:
        return None if self._examples is None else self._examples.between(*window.counts, calls)

    def _add(
        self,
        reading: WaitReading,
        durations_s: Times,
        examples: int | None,
        step: int,
        time_s: float,
        *,
        between_s: float | None = None,
        calls_after: int = 0,
        after_s: float = 0.0,
    ) -> StepWindow:
        """Makes a window of consecutive calls, and adds it to the totals.

        Args:
            reading: Wait of the calls.
            durations_s: Duration of each call, in seconds. Shape (calls,).
            examples: Number of examples in the calls; None if unknown.
            step: Global step at `time_s`.
            time_s: Time after the calls, in seconds since the Unix epoch.
            between_s: Seconds between the calls; None if unknown.
            calls_after: Number of further calls until `time_s`.
            after_s: Seconds from the end of the calls to `time_s`.
        """
        if reading.waits_s is not None:
            self.totals.distribution.add(reading.waits_s, durations_s)
        window = StepWindow(
            phase=self._phase,
            time_s=time_s,
            step=step,
            steps=len(durations_s) * self._steps_per_execution,
            duration_s=float(durations_s.sum()),
            input_wait_s=reading.wait_s,
            most_wait_s=reading.most_s,
            examples=examples,
            buffered_batches=reading.buffered_batches,
            between_s=between_s,
        )
        self.totals.add(window)
        self.totals.step_times.add(
            durations_s,
            reading.waits_s,
            last_step=step - calls_after * self._steps_per_execution,
            ended_s=time_s - after_s,
        )
        return window

    def _between_s(self, stretch: Stretch) -> float | None:
        """Returns the seconds between calls; None for `predict`, which fetches batches there."""
        if self._phase == "predict":
            return None
        return float((stretch.entries_s[1:] - stretch.exits_s).sum())
