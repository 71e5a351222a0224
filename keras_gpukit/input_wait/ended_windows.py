"""Windows of steps that have ended, worked out and added up.

Training waits meanwhile, on caches that its step has emptied. With short epochs many windows end in
a second: several of them together are worked out in a fraction of the time.
"""

from __future__ import annotations

import functools
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from keras_gpukit.input_wait.examples import Counts, ExampleCounter
from keras_gpukit.input_wait.meters import PipelineStart, Stretch, Times, WaitReading
from keras_gpukit.input_wait.totals import StepTotals
from keras_gpukit.input_wait.wall_time import WallTime
from keras_gpukit.records.steps import Phase, StepWindow


class EndedWindow(NamedTuple):
    """What must be read when a window ends.

    Attributes:
        times_s: When its calls were entered and left, in turn, and the call after them.
        raised: As in `Stretch`.
        read: Says how long its calls waited.
        counts: Of examples, at its begin and at its end.
        step: Global step at its end.
        time_s: Seconds since the Unix epoch at its end.
    """

    times_s: list[float]
    raised: bool
    read: Callable[[Stretch], WaitReading]
    counts: tuple[Counts, Counts]
    step: int
    time_s: float


class EndedWindows:
    """Takes windows and pipelines' starts in, in order; `work_out` adds them up.

    Args:
        phase: What the steps belong to.
        steps_per_execution: Steps in one call.
        on_window: Called with each window.
        wall: Where the call's wall time goes.
        examples: Counts examples; None where they are not counted.

    Attributes:
        totals: All windows that were worked out.
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
        """The windows to come are of another pipeline, or of a time after a pause."""
        self._later.append(self.totals.begin_epoch)

    def start(
        self,
        times_s: list[float],
        read: Callable[[Stretch], PipelineStart | None],
        *,
        counts: bool,
    ) -> None:
        """Takes in the start of a pipeline.

        Args:
            times_s: When the first call over it was entered and left, and the one after that.
            read: Says what is known of the start, from the first call.
            counts: Whether the wait in that call is the pipeline's.
        """

        def add() -> None:
            self._add_start(read(self._stretch(times_s)), times_s[0], counts)

        self._later.append(add)

    def start_alone(self, start: PipelineStart | None, began_s: float, *, counts: bool) -> None:
        """Takes in the start of a pipeline that had a single call.

        Args:
            start: What is known of it.
            began_s: When the call was entered.
            counts: Whether the wait in it is the pipeline's.
        """
        self._later.append(lambda: self._add_start(start, began_s, counts))

    def end(self, window: EndedWindow) -> None:
        """Takes in a window."""
        self._later.append(functools.partial(self._make, window))

    def end_short(
        self,
        durations_s: Times,
        reading: WaitReading,
        examples: int | None,
        step: int,
        time_s: float,
    ) -> None:
        """Takes in the calls of an epoch that has no call after them.

        Args:
            durations_s: The time of each. Shape (calls,).
            reading: Their wait.
            examples: How many they were given.
            step: Global step after them.
            time_s: Seconds since the Unix epoch after them.
        """
        add = functools.partial(self._add, reading, durations_s, examples, step, time_s)
        self._later.append(add)

    def work_out(self) -> None:
        """Makes all windows that have ended so far."""
        windows = []
        while self._later:
            window = self._later.popleft()()
            if window is not None:
                windows.append(window)
        for window in windows:  # only now, as the listener may ask for the totals
            self._on_window(window)

    def release(self) -> None:
        """Forgets the listener, and what was not worked out."""
        self._later.clear()
        self._on_window = lambda window: None

    def _stretch(self, calls_s: list[float], raised: bool = False) -> Stretch:
        """All calls but the last, which begins the next window."""
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
            reading: Their wait.
            durations_s: The time of each.
            examples: How many they were given.
            step: Global step at a moment after them,
            time_s: and that moment, in seconds since the Unix epoch.
            between_s: The time between them.
            calls_after: Calls between them and that moment.
            after_s: The time from their end to that moment.
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
        """The time between calls; None for `predict`, which fetches its batches there."""
        if self._phase == "predict":
            return None
        return float((stretch.entries_s[1:] - stretch.exits_s).sum())
