"""How much of the fetching hides behind compute, where a call runs several steps.

Within a call Keras' loop fetches the next batch while the current step computes, so a step takes
max(compute, fetch). The gaps that tf.data sees tell them apart. With s steps to a call, the gap
after a fetch is

- the loop's own overhead, after the call's first fetch, during which nothing computes;
- what compute takes longer than the fetch, plus that overhead, after those that follow;
- after the last one also the whole last step, during which nothing is fetched, and the way out of
  the call, back to Python and into the next call.

So each call shows one step's compute nearly bare: only the overhead, and what that compute's
predecessor took longer than the last fetch, must come off. Fetches often alternate, as when two are
made side by side, and may do so in step with the calls. So the last fetch is taken to be like the
one before it at the distance at which fetches resemble each other most. What the call's other steps
compute is taken to be alike on average: the stall is what remains of the calls' time.

One step stands for all steps of its call, so an outlier counts as many times as the call has steps.
Medians over calls leave outliers out: a step that was interrupted by another process, for example.
"""

from __future__ import annotations

import time
import weakref
from collections import deque
from typing import Any

import numpy as np

from keras_gpukit.input_wait.meters import Stretch, Times, WaitReading
from keras_gpukit.input_wait.tf_private import empty_iterator, is_made_by_keras

EMPTY_CALLS = 4
IDLE_S = 0.005
# With fewer there is no step within a call that shows what its last fetch was like.
FEWEST_STEPS = 3
LONGEST_PERIOD = 16
# Calls that the compute of a step is taken from, the latest ones.
CALLS_KEPT = 1000
# If at least this share of a call's steps found their batch ready, what they took shows the compute
# of one. The maximum would be a step that another process interrupted. Our choice.
SHOWN_BY = 0.25
# The way into a call and out of it, by step function: timing it takes tens of milliseconds, and a
# model keeps its step function from one `fit` to the next.
_empty_call_s: weakref.WeakKeyDictionary[Any, float] = weakref.WeakKeyDictionary()


class HiddenWait:
    """Takes fetching that hides behind compute off the wait.

    Args:
        step_function: Keras' own, compiled for several steps a call.
        steps_per_execution: How many.
    """

    def __init__(self, step_function: Any, steps_per_execution: int) -> None:
        self._step_function = step_function
        self._steps_per_execution = steps_per_execution
        self._empty_call_s: float | None = None
        # By call: a single one shows a single step.
        self._last_s: deque[float] = deque(maxlen=CALLS_KEPT)
        self._shown_s: deque[float] = deque(maxlen=CALLS_KEPT)
        # By period too, as many as there are steps within a call to tell them by.
        periods = min(LONGEST_PERIOD, steps_per_execution - 2)
        self._longer_s: deque[Times] = deque(maxlen=CALLS_KEPT)
        self._unlike_s = np.zeros(periods)

    def calibrate(self, iterator: Any) -> None:
        """Times the way into a call and out of it, once: calls that find no data run no step.

        Args:
            iterator: One that the step function was traced for.

        Raises:
            Exception: If that cannot be done without a trace, or a call has too few steps.
        """
        if self._empty_call_s is None:
            self._empty_call_s = _empty_call_s.get(self._step_function)
        if self._empty_call_s is not None:
            return
        if self._steps_per_execution < FEWEST_STEPS:
            raise ValueError(f"an execution has fewer than {FEWEST_STEPS} steps")
        if not is_made_by_keras(self._step_function):
            raise ValueError("the step function is not Keras' own")
        empty = empty_iterator(iterator)
        durations_s = []
        for _ in range(EMPTY_CALLS):
            # A call that waited for data wakes up idle cores, and so must this one.
            time.sleep(IDLE_S)
            began = time.perf_counter()
            try:
                self._step_function(empty)
            except StopIteration:
                durations_s.append(time.perf_counter() - began)
        self._empty_call_s = float(np.median(durations_s))
        _empty_call_s[self._step_function] = self._empty_call_s

    def read(self, stretch: Stretch, gaps_s: Times, buffered: float | None) -> WaitReading:
        """Returns the stall within a stretch.

        Args:
            stretch: Calls.
            gaps_s: After each fetch, a row each of the stretch's last calls. Shape
                (calls, steps per execution), at least `FEWEST_STEPS` steps.
            buffered: Fill of the pipeline's last buffer.
        """
        assert self._empty_call_s is not None
        calls, steps = gaps_s.shape
        durations_s = stretch.durations_s[-calls:]
        outside_s = stretch.entries_s[-calls:] - stretch.exits_s[-calls:]
        # With few calls in the stretch, one interruption would be in the median of the first gaps.
        overhead_s = float(min(np.median(gaps_s[:, 0]), np.median(gaps_s[:, 1:-1])))
        longer_s = np.maximum(gaps_s[:, 1:-1] - overhead_s, 0.0)
        self._add(gaps_s[:, -1] - outside_s - self._empty_call_s - overhead_s, longer_s)
        fetching_s = np.maximum(durations_s - gaps_s.sum(axis=1), 0.0)
        busy_s = outside_s + self._empty_call_s + steps * (overhead_s + self._step_s())
        stalls_s = np.minimum(durations_s - busy_s, fetching_s)
        share = stretch.calls / calls
        return WaitReading(
            wait_s=share * float(min(max(stalls_s.sum(), 0.0), fetching_s.sum())),
            waits_s=stalls_s if calls == stretch.calls else None,
            buffered_batches=buffered,
        )

    def _add(self, last_s: Times, longer_s: Times) -> None:
        """Takes calls in: their gaps after the last fetch, and by how much steps took longer."""
        self._last_s.extend(last_s)
        self._shown_s.extend(np.quantile(longer_s, 1 - SHOWN_BY, axis=1))
        periods = len(self._unlike_s)
        self._longer_s.extend(longer_s[:, : -periods - 1 : -1])
        for period in range(1, periods + 1):
            unlike_s = np.abs(longer_s[:, period:] - longer_s[:, :-period])
            # With nothing to compare at that distance, it is the last choice.
            unlike = unlike_s.mean() if unlike_s.size else longer_s.max()
            self._unlike_s[period - 1] += len(last_s) * unlike

    def _step_s(self) -> float:
        """Compute of a step."""
        likest = int(np.argmin(self._unlike_s))
        step_s = np.median(np.array(self._last_s) - np.array(self._longer_s)[:, likest])
        # No step took longer than its fetch by more than it took itself.
        return float(max(step_s, np.median(self._shown_s), 0.0))
