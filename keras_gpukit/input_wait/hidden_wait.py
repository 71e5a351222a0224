"""How much of the fetching hides behind compute, where a call runs several steps.

Within a call Keras' loop fetches the next batch while the current step computes, so a step takes
max(compute, fetch). The gaps that tf.data sees tell them apart. With s steps to a call, the gap
after a fetch is

- the loop's own overhead, after the call's first fetch, beside which nothing computes;
- what compute takes longer than the fetch, plus that overhead, after those that follow;
- after the last one also the whole last step, beside which nothing is fetched, and the way out of
  the call, back to Python and into the next call.

So each call shows one step's compute bare. What its other steps compute is taken to be alike on
average: the stall is what remains of the calls' time.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from keras_gpukit.input_wait.meters import Reading, Stretch, Times
from keras_gpukit.input_wait.tf_private import empty_iterator, is_made_by_keras

EMPTY_CALLS = 4


class HiddenWait:
    """Takes fetching that hides behind compute off the wait.

    Args:
        step_function: Keras' own, compiled for several steps a call.
    """

    def __init__(self, step_function: Any) -> None:
        self._step_function = step_function
        self._empty_call_s: float | None = None
        self._calls = 0
        self._compute_s = 0.0

    def calibrate(self, iterator: Any) -> None:
        """Times the way into a call and out of it, once: calls that find no data run no step.

        Args:
            iterator: One that the step function was traced for.

        Raises:
            Exception: If that cannot be done without a trace.
        """
        if self._empty_call_s is not None:
            return
        if not is_made_by_keras(self._step_function):
            raise ValueError("the step function is not Keras' own")
        empty = empty_iterator(iterator)
        durations_s = []
        for _ in range(EMPTY_CALLS):
            began = time.perf_counter()
            try:
                self._step_function(empty)
            except StopIteration:
                durations_s.append(time.perf_counter() - began)
        self._empty_call_s = float(np.median(durations_s))

    def read(self, stretch: Stretch, gaps_s: Times, buffered: float | None) -> Reading:
        """Returns the stall within a stretch.

        Args:
            stretch: Calls.
            gaps_s: After each fetch, a row each of the stretch's last calls. Shape
                (calls, steps per execution), at least two steps.
            buffered: Fill of the pipeline's last buffer.
        """
        assert self._empty_call_s is not None
        calls, steps = gaps_s.shape
        durations_s = stretch.durations_s[-calls:]
        outside_s = stretch.entries_s[-calls:] - stretch.exits_s[-calls:]
        overhead_s = gaps_s[:, 0]
        inner_s = gaps_s[:, 1:-1].mean(axis=1) if steps > 2 else overhead_s
        longer_s = np.maximum(inner_s - overhead_s, 0.0)
        self._calls += calls
        self._compute_s += float((gaps_s[:, -1] - outside_s - self._empty_call_s - longer_s).sum())
        # Averaged over the run: a single call shows a single step.
        step_s = max(self._compute_s / self._calls, 0.0)
        fetching_s = np.maximum(durations_s - gaps_s.sum(axis=1), 0.0)
        busy_s = outside_s + self._empty_call_s + steps * (overhead_s + step_s)
        stalls_s = np.minimum(durations_s - busy_s, fetching_s)
        share = stretch.calls / calls
        return Reading(
            wait_s=share * float(min(max(stalls_s.sum(), 0.0), fetching_s.sum())),
            waits_s=stalls_s if calls == stretch.calls else None,
            buffered_batches=buffered,
        )
