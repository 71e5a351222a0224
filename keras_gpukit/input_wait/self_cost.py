"""What is put around a step function costs each step on this machine."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from typing import Any

StepFunction = Callable[[Any], Any]

CALLS = 1000
# A step leaves cold caches, in which code takes several times as long as in a loop of its own: of
# every two steps of 1 ms, the one that `Monitor` watched took about 9 µs longer, and so many calls
# in a loop about 1 µs.
COLD = 8.0


@functools.cache
def cost_of_a_call_s(timed: Callable[[StepFunction], StepFunction]) -> float:
    """Returns what each call costs within training, in seconds.

    Estimated once from a step function that does nothing: measuring each call would cost more than
    the call.

    Args:
        timed: Puts around a step function what is to be measured, and does nothing else.
    """

    def nothing(source: Any) -> None:
        return None

    durations_s = []
    for function in (nothing, timed(nothing)):
        function(nothing)  # the first call over a source does more
        began = time.perf_counter()
        for _ in range(CALLS):
            function(nothing)
        durations_s.append(time.perf_counter() - began)
    return COLD * max(durations_s[1] - durations_s[0], 0.0) / CALLS
