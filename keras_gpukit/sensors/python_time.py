"""Estimates how many threads are inside some Python functions, by sampling their stacks."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from types import CodeType, FrameType

# Minimum number of looks for a result. There are five looks per second.
MINIMUM_LOOKS = 10
# Number of threads found inside a function before it counts as the slowest: our choice.
MINIMUM_FOUND = 3
# Number of frames in which a stack is searched for the functions.
DEEPEST = 50


class PythonTimeSensor:
    """Samples the stacks of all threads, without hooks or tracing.

    Args:
        codes: Code of the functions. If one calls another, only the called one counts as busy.
    """

    def __init__(self, codes: Iterable[CodeType]) -> None:
        self._looks = 0
        self._found = dict.fromkeys(codes, 0)  # threads inside, over all looks

    def read(self) -> None:
        """Looks at all threads' stacks once."""
        self._looks += 1
        for frame in sys._current_frames().values():
            if (code := self._inside(frame)) is not None:
                self._found[code] += 1

    def mean_threads(self) -> float | None:
        """Returns the mean number of threads inside the functions; None after too few looks.

        Also returns None if no look found a thread inside: a look needs the GIL, and may get it
        only once the function has returned.
        """
        inside = sum(self._found.values())
        return inside / self._looks if inside and self._looks >= MINIMUM_LOOKS else None

    def slowest(self) -> CodeType | None:
        """Returns the code that most looks found a thread inside; None if too few did."""
        code = max(self._found, key=lambda each: self._found[each])
        return code if self._found[code] >= MINIMUM_FOUND else None

    def _inside(self, frame: FrameType | None) -> CodeType | None:
        for _ in range(DEEPEST):
            if frame is None:
                return None
            if frame.f_code in self._found:
                return frame.f_code
            frame = frame.f_back
        return None
