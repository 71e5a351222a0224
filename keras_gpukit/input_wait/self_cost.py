"""What timing one call of a step function costs on this machine."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from typing import Any

StepFunction = Callable[[Any], Any]

CALLS = 1000


@functools.cache
def cost_of_a_call_s(timed: Callable[[StepFunction], StepFunction]) -> float:
    """Returns what each call costs, in seconds.

    Measured once on a step function that does nothing: measuring each call would cost more than
    the call.

    Args:
        timed: Makes, from a step function, one whose calls are timed and whose meter is never due.
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
    return max(durations_s[1] - durations_s[0], 0.0) / CALLS
