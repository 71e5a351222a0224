"""Decides when `Monitor` takes a profile of steps by itself, on a GPU and on a CPU."""

from __future__ import annotations

from collections.abc import Callable

from keras_gpukit.records.placement import PlacementRecord
from keras_gpukit.records.profile import Trigger
from keras_gpukit.records.steps import StepWindow, TimeBreakdown
from keras_gpukit.rules.rule import seconds
from keras_gpukit.rules.savings import lasting_time_s

# These are our choice. A run that is over by then needs no profile.
AFTER_S = 20.0
"""Time from a run's start to its first automatic capture."""
STEADY_INTERVAL_S = 5.0
STEADY_WITHIN = 0.1
"""Largest relative difference of the mean step times of two intervals in a row, if steady."""
SLOWER = 1.5
"""Steps that take longer than the steady ones by this factor, for two intervals, are captured."""


class Intervals:
    """Joins windows of steps to intervals of a least length."""

    def __init__(self, least_s: float) -> None:
        self._least_s = least_s
        self.clear()

    def clear(self) -> None:
        """Drops the windows since the last complete interval."""
        self._steps, self._duration_s = 0, 0.0

    def add_window(self, window: StepWindow) -> float | None:
        """Adds a window; at the end of an interval, returns its mean step time in seconds."""
        self._steps += window.steps
        self._duration_s += window.duration_s
        if self._duration_s < self._least_s:
            return None
        step_time_s = self._duration_s / self._steps
        self.clear()
        return step_time_s


class AutomaticCaptures:
    """Asks for one capture once steps are steady, and for one if they become slower later.

    Args:
        began_s: When the run began, in seconds since the Unix epoch.

    Attributes:
        none_because: Why there was no capture of steady steps; None if one was asked for.
        executions: Number of executions to capture; None for the usual number.
    """

    executions: int | None = None

    def __init__(self, began_s: float) -> None:
        self.none_because: str | None = f"the run had no steps after its first {AFTER_S:g} s"
        self._due_s = began_s + AFTER_S
        self._intervals = Intervals(STEADY_INTERVAL_S)
        self._step_time_s: float | None = None
        self._steady_s: float | None = None
        self._is_told = False

    def skip(self) -> None:
        """Drops the windows since the last complete interval: a capture was under way."""
        self._intervals.clear()

    def add_window(self, window: StepWindow) -> tuple[Trigger, str] | None:
        """Adds a window of steps; returns the trigger and the reason if a capture is due."""
        step_time_s = self._intervals.add_window(window)
        if step_time_s is None:
            return None
        before_s, self._step_time_s = self._step_time_s, step_time_s
        if window.time_s < self._due_s:
            return None
        if self._steady_s is None:
            if before_s is None or abs(step_time_s - before_s) > STEADY_WITHIN * before_s:
                self.none_because = "the step time was never steady"
                return None
            self.none_because, self._steady_s = None, step_time_s
            return "steady", f"steady steps of {seconds(step_time_s * 1e3)} ms"
        # One interval alone may be slow by a checkpoint or another process.
        is_slower = min(before_s or 0.0, step_time_s) > SLOWER * self._steady_s
        if not is_slower or self._is_told:
            return None
        self._is_told = True
        took, usual = seconds(step_time_s * 1e3), seconds(self._steady_s * 1e3)
        return "step time", f"steps took {took} ms, usually {usual} ms"


CPU_AFTER_S = 10.0
"""Our choice: a run that is over by then needs no profile."""
SUSPECTED_AFTER_S = 4.0
"""The same if something about the run asks for a profile, whether or not steps are steady."""
LEAST_SUSPECTED = 4
"""Least executions of such a capture."""
INTERVAL_S = 2.0
CPU_STEADY_WITHIN = 0.5
"""Largest relative difference of the mean step times of two intervals in a row. On a CPU other
processes make steps uneven: it is enough that they no longer warm up. Our choice."""
MOST_COMPUTES = 0.5
"""Least share of compute in the time after the first step; as for "low-compute-share"."""
COST_FRACTION, COST_S = 0.01, 0.3
"""Most that a capture may cost, as a share of the run so far and in seconds."""
MOST_EXECUTIONS = 10
"""Most executions in a capture, as on a GPU; its profile does not count the first and the last."""
EVENT_COST_S = 12e-6
"""Cost of an event. On two busy cores, stopping and writing took 4 to 7 µs of processor
time, and reading 7 to 25 µs of wall time (steps of dense, convolutional, recurrent and embedding
models); this is our choice between a busy machine and an idle one."""
EVENTS_PER_OPERATION, EVENTS_PER_S, LOOP_EVENTS_PER_S = 5, 20e3, 400e3
"""Events of a step. Each operation leaves a few, and the parts of large ones that run in parallel
left up to 11,000 per second. Operations in a loop left up to 440,000 per second (an LSTM of 200
small steps), and the graph does not say how often they run."""
OPERATIONS_PER_WEIGHT = 50
"""Steps of small models with Adam had 26 to 45 operations for each trainable weight."""
_IN_LOOPS = ("While", "TensorList", "TensorArray")
"""Types of operations that a graph has if it loops. TensorFlow lowers the loops themselves."""


def events_of_step(
    step_time_s: float, placement: PlacementRecord | None, weights: int, *, recurs: bool
) -> float:
    """Estimates how many events a step leaves in a profile.

    Where its operations are not known, they follow from the number of trainable weights, and
    whether they loop from whether a layer recurs.
    """
    most = LOOP_EVENTS_PER_S * step_time_s
    operations: float = OPERATIONS_PER_WEIGHT * weights
    if placement is not None and placement.operations:
        operations = sum(placement.by_device.values())
        types = (name for of in placement.operations.values() for name in of)
        recurs = any(name.startswith(_IN_LOOPS) for name in types)
    if recurs:
        return most
    return min(EVENTS_PER_OPERATION * operations + EVENTS_PER_S * step_time_s, most)


def affordable(cost_s: float, run_s: float) -> int | str:
    """Returns how many executions, each at a cost, may be captured so far in a run; or why none."""
    if cost_s > COST_S:
        return f"a profile of one step may cost {seconds(cost_s)} s"
    count = int(min(COST_FRACTION * run_s, COST_S) / max(cost_s, 1e-6) + 1e-6)
    if not count:
        return f"a profile may cost {cost_s:.2f} s, which is over 1 % of the run"
    return min(count, MOST_EXECUTIONS)


class CPUCaptures:
    """Asks for one capture once a run computes steadily, and a capture is cheap.

    Args:
        began_s: When the run began, in seconds since the Unix epoch.
        breakdown: Returns where the run's time went so far.
        cost: Returns the seconds that a capture of one execution costs, for a step time.
        suspected: Whether something about the run asks for a profile. It then gets one early,
            whatever the estimated cost.

    Attributes:
        none_because: Why there was no capture; None if one was asked for.
        executions: Number of executions to capture.
    """

    def __init__(
        self,
        began_s: float,
        breakdown: Callable[[], TimeBreakdown | None],
        cost: Callable[[float], float],
        *,
        suspected: bool = False,
    ) -> None:
        self._after_s = SUSPECTED_AFTER_S if suspected else CPU_AFTER_S
        because = f"the run had no steps after its first {self._after_s:g} s"
        self.none_because: str | None = because
        self.executions: int | None = None
        self._began_s = began_s
        self._breakdown = breakdown
        self._cost = cost
        self._suspected = suspected
        self._intervals = Intervals(0.0 if suspected else INTERVAL_S)
        self._step_time_s: float | None = None

    def skip(self) -> None:
        """Drops the windows since the last complete interval: a capture was under way."""
        self._intervals.clear()

    def add_window(self, window: StepWindow) -> tuple[Trigger, str] | None:
        """Adds a window of steps; returns the trigger and the reason if a capture is due."""
        step_time_s = self._intervals.add_window(window) if self.none_because is not None else None
        if step_time_s is None:
            return None
        before_s, self._step_time_s = self._step_time_s, step_time_s
        run_s = window.time_s - self._began_s
        if run_s < self._after_s:
            return None
        self.none_because = self._not_due_because(before_s, step_time_s, run_s)
        if self.none_because is not None:
            return None
        return "steady", f"steady steps of {seconds(step_time_s * 1e3)} ms"

    def _not_due_because(self, before_s: float | None, now_s: float, run_s: float) -> str | None:
        cost_s = self._cost(now_s)
        if self._suspected:
            count = affordable(cost_s, COST_S / COST_FRACTION)
            self.executions = max(count if isinstance(count, int) else 0, LEAST_SUSPECTED)
            return None
        if before_s is None or abs(now_s - before_s) > CPU_STEADY_WITHIN * before_s:
            return "the step time was never steady"
        parts = self._breakdown()
        if parts is None or parts.compute_s is None:
            return "it is unknown how long steps computed"
        if parts.compute_s < MOST_COMPUTES * lasting_time_s(parts):
            return "compute was less than half of the run"
        executions = affordable(cost_s, run_s)
        if isinstance(executions, str):
            return executions
        self.executions = executions
        return None
