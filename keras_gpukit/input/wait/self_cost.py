"""Measures how much time a wrapper around a step function adds to each step on this machine."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from typing import Any

StepFunction = Callable[[Any], Any]

CALLS = 1000
# A step leaves cold caches, so code after it takes several times longer than in a tight loop. When
# `Monitor` monitored one of every two steps of 1 ms, that step took about 9 µs longer. In a loop,
# the same number of calls took about 1 µs.
COLD = 8.0


@functools.cache
def cost_of_a_call_s(timed: Callable[[StepFunction], StepFunction]) -> float:
    """Returns the overhead of a wrapper for each call within training, in seconds.

    The overhead is estimated once, with a step function that does nothing. Measuring it in every
    call would take more time than the wrapper itself.

    Args:
        timed: Wraps a step function in the code to be measured, and in nothing else.
    """

    def nothing(source: Any) -> None:
        return None

    durations_s = []
    for function in (nothing, timed(nothing)):
        function(nothing)  # the first call over a source does more
        # Not the elapsed time: Python threads that make batches would interrupt the loop.
        began = time.thread_time()
        for _ in range(CALLS):
            function(nothing)
        durations_s.append(time.thread_time() - began)
    return COLD * max(durations_s[1] - durations_s[0], 0.0) / CALLS
