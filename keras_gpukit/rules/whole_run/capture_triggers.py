"""Decides when `Monitor` takes a profile of steps by itself, on a GPU and on a CPU."""

from __future__ import annotations

from abc import ABC, abstractmethod
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
Due = tuple[Trigger, str]
"""Trigger of a capture that is due, and the reason in words."""


class CaptureTrigger(ABC):
    """Asks for captures by the mean step times of intervals of a least length.

    Args:
        began_s: When the run began, in seconds since the Unix epoch.
        after_s: Time from then until the first capture.
        interval_s: Least length of an interval.

    Attributes:
        none_because: Why there was no capture of steady steps; None if one was asked for.
        executions: Number of executions to capture; None for the usual number.
    """

    executions: int | None = None

    def __init__(self, began_s: float, after_s: float, interval_s: float) -> None:
        self.none_because: str | None = f"the run had no steps after its first {after_s:g} s"
        self._began_s, self._after_s, self._interval_s = began_s, after_s, interval_s
        self._step_time_s: float | None = None
        self.skip()

    def skip(self) -> None:
        """Drops the windows since the last complete interval: a capture was under way."""
        self._steps, self._duration_s = 0, 0.0

    def add_window(self, window: StepWindow) -> Due | None:
        """Adds a window of steps; returns why a capture is due, if one is."""
        self._steps += window.steps
        self._duration_s += window.duration_s
        if self._duration_s < self._interval_s:
            return None
        before_s, self._step_time_s = self._step_time_s, self._duration_s / self._steps
        self.skip()
        run_s = window.time_s - self._began_s
        return None if run_s < self._after_s else self._due(before_s, self._step_time_s, run_s)

    @abstractmethod
    def _due(self, before_s: float | None, step_time_s: float, run_s: float) -> Due | None:
        """Decides after an interval, by its mean step time and that of the one before it."""


class AutomaticCaptures(CaptureTrigger):
    """Asks for one capture once steps are steady, and for one if they become slower later."""

    def __init__(self, began_s: float) -> None:
        super().__init__(began_s, AFTER_S, STEADY_INTERVAL_S)
        self._steady_s: float | None = None
        self._is_told = False

    def _due(self, before_s: float | None, step_time_s: float, run_s: float) -> Due | None:
        if self._steady_s is None:
            if before_s is None or abs(step_time_s - before_s) > STEADY_WITHIN * before_s:
                self.none_because = "the step time was never steady"
                return None
            self.none_because, self._steady_s = None, step_time_s
            return _steady(step_time_s)
        # One interval alone may be slow by a checkpoint or another process.
        is_slower = min(before_s or 0.0, step_time_s) > SLOWER * self._steady_s
        if not is_slower or self._is_told:
            return None
        self._is_told = True
        took, usual = seconds(step_time_s * 1e3), seconds(self._steady_s * 1e3)
        return "step time", f"steps took {took} ms, usually {usual} ms"


def _steady(step_time_s: float) -> Due:
    return "steady", f"steady steps of {seconds(step_time_s * 1e3)} ms"


CPU_AFTER_S = 10.0
"""From then on a capture of fewer executions is asked for, too; our choice."""
CPU_SOONEST_S, FEWEST_SOONER = 5.0, 2
"""Time and number of executions from which one is asked for sooner. A run that is over by then
needs no profile. Our choice."""
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


class CPUCaptures(CaptureTrigger):
    """Asks for one capture once a run computes steadily, and a capture is cheap.

    Args:
        began_s: When the run began, in seconds since the Unix epoch.
        breakdown: Returns where the run's time went so far.
        cost: Returns the seconds that a capture of one execution costs, for a step time.
        suspected: Whether something about the run asks for a profile. It then gets one early,
            whatever the estimated cost.
    """

    def __init__(
        self,
        began_s: float,
        breakdown: Callable[[], TimeBreakdown | None],
        cost: Callable[[float], float],
        *,
        suspected: bool = False,
    ) -> None:
        after_s, interval_s = (SUSPECTED_AFTER_S, 0.0) if suspected else (CPU_SOONEST_S, INTERVAL_S)
        super().__init__(began_s, after_s, interval_s)
        self._breakdown, self._cost, self._suspected = breakdown, cost, suspected

    def _due(self, before_s: float | None, step_time_s: float, run_s: float) -> Due | None:
        if self.none_because is None:
            return None  # one was asked for
        self.none_because = self._not_due_because(before_s, step_time_s, run_s)
        return _steady(step_time_s) if self.none_because is None else None

    def _not_due_because(self, before_s: float | None, now_s: float, run_s: float) -> str | None:
        cost_s = self._cost(now_s)
        most_s = COST_S if self._suspected else min(COST_FRACTION * run_s, COST_S)
        count = min(int(most_s / max(cost_s, 1e-6) + 1e-6), MOST_EXECUTIONS)
        if self._suspected:
            self.executions = max(count, LEAST_SUSPECTED)
            return None
        if before_s is None or abs(now_s - before_s) > CPU_STEADY_WITHIN * before_s:
            return "the step time was never steady"
        parts = self._breakdown()
        if parts is None or parts.compute_s is None:
            return "it is unknown how long steps computed"
        if parts.compute_s < MOST_COMPUTES * lasting_time_s(parts):
            return "compute was less than half of the run"
        if cost_s > COST_S:
            return f"a profile of one step may cost {seconds(cost_s)} s"
        if count < FEWEST_SOONER and run_s < CPU_AFTER_S:
            return f"the run had no steps after its first {CPU_AFTER_S:g} s"
        if not count:
            return f"a profile may cost {cost_s:.2f} s, which is over 1 % of the run"
        self.executions = count
        return None
