"""Estimates how much of the fetching hides behind compute if a call runs several steps.

The gaps between fetches, which tf.data records, separate the two: after the call's first fetch the
overhead of the loop; after each later one also the time by which compute exceeds the fetch; after
the last one also the whole last step, the way out of the call and into the next one. What is got
from them, and what was seen on GPUs, is on the page "How the input wait is measured".

Fetches often alternate, for example if two run in parallel, and may do so in step with the calls.
The last fetch is therefore assumed to resemble an earlier one, at the distance at which fetches
resemble each other most; or, if that gives a clearly shorter step, to have waited in a quarter of
the calls. Medians over calls leave outliers out, such as a step that another process interrupted.
"""

from __future__ import annotations

import time
import weakref
from collections import deque
from contextlib import suppress
from typing import Any

import numpy as np

from keras_gpukit.frameworks.keras_trainer import is_made_by_keras
from keras_gpukit.frameworks.tf_datasets import empty_iterator
from keras_gpukit.input.wait.meters import CallWindow, Times, WaitReading

EMPTY_CALLS = 4
IDLE_S = 0.005
# With fewer steps, no earlier step of a call can show what its last fetch was like.
FEWEST_STEPS = 3
# With fewer calls, one outlier decides.
FEWEST_CALLS = 3
LONGEST_PERIOD = 16
# A call with steps takes at most so many times as long to enter and leave as an empty one after a
# pause. Our choice; on an H100 it took about as long.
LONGEST_CALL = 2
# Number of latest calls from which it is estimated how long a step computes.
CALLS_KEPT = 1000
# If at least this share of a call's steps found their batch ready, their gaps show how long a step
# computes. The maximum gap could be a step that another process interrupted. Our choice.
SHOWN_BY = 0.25
# A quarter of the last steps that is shorter by this factor did wait for its batch. Our choice.
CLEARLY_SHORTER = 0.9
# Shortest and longest time in seconds to enter and leave a call, by step function. They are kept
# because timing them takes tens of milliseconds, and a model keeps its step function from one `fit`
# to the next.
_call_s: weakref.WeakKeyDictionary[Any, tuple[float, float]] = weakref.WeakKeyDictionary()


class HiddenWait:
    """Subtracts the fetching that hides behind compute from the wait."""

    def __init__(self, step_function: Any, steps_per_execution: int) -> None:
        self._step_function = step_function
        self._steps_per_execution = steps_per_execution
        self._call_s: tuple[float, float] | None = None
        # One number per call, since each call shows the compute of a single step.
        self._last_s: deque[float] = deque(maxlen=CALLS_KEPT)
        self._shown_s: deque[float] = deque(maxlen=CALLS_KEPT)
        # A row per call, with a column per period. The steps of a call limit the number of periods.
        periods = min(LONGEST_PERIOD, steps_per_execution - 2)
        self._longer_s: deque[Times] = deque(maxlen=CALLS_KEPT)
        self._unlike_s = np.zeros(periods)

    def calibrate(self, iterator: Any) -> None:
        """Times once how long entering and leaving a call takes, with calls that find no data.

        Such calls run no step. Raises if that needs a new trace, a call has too few steps, or the
        step function is not Keras' own.
        """
        if self._call_s is None:
            self._call_s = _call_s.get(self._step_function)
        if self._call_s is not None:
            return
        if self._steps_per_execution < FEWEST_STEPS or not is_made_by_keras(self._step_function):
            raise ValueError("what hides behind compute is unknown")
        empty = empty_iterator(iterator)
        # Calls that wait for data must wake up idle cores, so some of these should too.
        paused_s, following_s = (
            [self._time_call(empty, pause_s) for _ in range(EMPTY_CALLS)]
            for pause_s in (IDLE_S, 0.0)
        )
        longest_s = LONGEST_CALL * float(np.median(paused_s))
        self._call_s = _call_s[self._step_function] = min(*paused_s, *following_s), longest_s

    def _time_call(self, empty: Any, pause_s: float) -> float:
        time.sleep(pause_s)
        began_s = time.perf_counter()
        with suppress(StopIteration):
            self._step_function(empty)
        return time.perf_counter() - began_s

    def stall_in(self, window: CallWindow, gaps_s: Times, buffered: float | None) -> WaitReading:
        """Returns the stall within a window.

        `gaps_s` has the gap after each fetch of the window's last calls. Shape (calls, steps per
        execution), with at least `FEWEST_STEPS` steps. The last buffer has `buffered` batches.
        """
        assert self._call_s is not None
        calls, steps = gaps_s.shape
        durations_s = window.durations_s[-calls:]
        outside_s = window.entries_s[-calls:] - window.exits_s[-calls:]
        # In a window of few calls, one interruption would change the median of the first gaps.
        overhead_s = float(min(np.median(gaps_s[:, 0]), np.median(gaps_s[:, 1:-1])))
        longer_s = np.maximum(gaps_s[:, 1:-1] - overhead_s, 0.0)
        self._add(gaps_s[:, -1] - outside_s - overhead_s, longer_s)
        if len(self._last_s) < FEWEST_CALLS:
            because = f"fewer than {FEWEST_CALLS} executions show how long a step computes"
            return WaitReading(None, None, buffered, because)
        fetching_s = np.maximum(durations_s - gaps_s.sum(axis=1), 0.0)

        def stalls_s(call_s: float) -> Times:
            step_s = overhead_s + self._step_s(call_s)
            stalls: Times = np.minimum(
                durations_s - outside_s - call_s - steps * step_s, fetching_s
            )
            return stalls

        def total_s(waits_s: Times) -> float:
            limited_s = np.clip(waits_s.sum(), 0.0, fetching_s.sum())
            return float(window.calls / calls * limited_s)

        least_s, most_s = map(stalls_s, self._call_s)
        return WaitReading(
            wait_s=total_s(least_s),
            waits_s=least_s if calls == window.calls else None,
            buffered_batches=buffered,
            most_s=max(total_s(least_s), total_s(most_s)),
        )

    def _add(self, last_s: Times, longer_s: Times) -> None:
        """Adds calls.

        `last_s` are the gaps after each call's last fetch, with entering and leaving the call but
        without other overhead: shape (calls,). `longer_s` is by how much the compute of each inner
        step exceeded its fetch: shape (calls, steps per execution - 2).
        """
        self._last_s.extend(last_s)
        self._shown_s.extend(np.quantile(longer_s, 1 - SHOWN_BY, axis=1))
        periods = len(self._unlike_s)
        self._longer_s.extend(longer_s[:, : -periods - 1 : -1])
        for period in range(1, periods + 1):
            unlike_s = np.abs(longer_s[:, period:] - longer_s[:, :-period])
            # If there is nothing to compare at this distance, it is the last choice.
            unlike = unlike_s.mean() if unlike_s.size else longer_s.max()
            self._unlike_s[period - 1] += len(last_s) * unlike

    def _step_s(self, call_s: float) -> float:
        """Returns how long a step computes, in seconds."""
        likest, last_s = int(np.argmin(self._unlike_s)), np.array(self._last_s)
        step_s = float(np.median(last_s - np.array(self._longer_s)[:, likest]))
        waited_s = float(np.quantile(last_s, SHOWN_BY))
        if waited_s < CLEARLY_SHORTER * step_s:  # or it is only the shortest quarter of equal steps
            step_s = waited_s
        # Compute cannot exceed a fetch by more than its own duration.
        return max(step_s - call_s, float(np.median(self._shown_s)), 0.0)
