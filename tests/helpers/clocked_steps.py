"""The corridor of a step without Keras: a clock, and all that makes windows of its calls."""

import time
from typing import NamedTuple

from keras_gpukit.input.wait.calls import CallTimes
from keras_gpukit.input.wait.clock import StepClock
from keras_gpukit.input.wait.closed_windows import ClosedWindows
from keras_gpukit.input.wait.meters import WaitReading
from keras_gpukit.input.wait.step_windows import StepWindows
from keras_gpukit.input.wait.totals import StepTotals
from keras_gpukit.saved_runs.folding import RunFold


class Pipeline:
    """Stands in for an iterator; what matters is only which one it is."""


class Meter:
    """Stands in for what measures waits, and knows of none."""

    mechanism = "made up"
    confidence = "exact"
    reads_early = True

    def waited_s(self):
        return None

    take = waited_s

    def start(self, taken, first):
        return None

    def wait_of(self, taken, window):
        return WaitReading(None)


class ClockedSteps(NamedTuple):
    calls: CallTimes
    totals: StepTotals
    windows: StepWindows
    clock: StepClock


def clocked_steps(
    choose,
    on_window,
    *,
    first_step=0,
    wall=None,
    examples=None,
    suspended_since=lambda moment_s: False,
    now=time.perf_counter,
    steps_per_execution=1,
    **options,
):
    calls, fold = CallTimes(steps_per_execution, first_step), RunFold()
    totals = StepTotals("fit", steps_per_execution, fold.measured)

    def add(window):
        fold.add_record("steps", window, window.time_s, window.step)
        on_window(window)

    starts = {"on_start": wall.add_epoch_wait} if wall else {}
    ended = ClosedWindows(
        totals, on_window=add, examples=examples, suspended_since=suspended_since, **starts
    )
    windows = StepWindows(calls, choose, ended, now)
    return ClockedSteps(
        calls, totals, windows, StepClock(calls, windows, wall=wall, now=now, **options)
    )
