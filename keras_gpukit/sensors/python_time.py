"""Estimates how many threads are inside a Python function, by sampling their stacks."""

from __future__ import annotations

import sys
from types import CodeType, FrameType

# Minimum number of looks for a result. There are five looks per second.
MINIMUM_LOOKS = 10
# Number of frames in which a stack is searched for the function. Keras calls it directly.
DEEPEST = 50


class PythonTimeSensor:
    """Samples the stacks of all threads, without hooks or tracing."""

    def __init__(self, code: CodeType) -> None:
        self._code = code
        self._looks = (0, 0)  # all of them, and the threads that they found inside

    def read(self) -> None:
        """Looks at all threads' stacks once."""
        inside = sum(self._is_inside(frame) for frame in sys._current_frames().values())
        self._looks = self._looks[0] + 1, self._looks[1] + inside

    def mean_threads(self) -> float | None:
        """Returns the mean number of threads inside the function; None after too few looks.

        Also returns None if no look found a thread inside: a look needs the GIL, and may get it
        only once the function has returned.
        """
        looks, inside = self._looks
        return inside / looks if inside and looks >= MINIMUM_LOOKS else None

    def _is_inside(self, frame: FrameType | None) -> bool:
        for _ in range(DEEPEST):
            if frame is None:
                return False
            if frame.f_code is self._code:
                return True
            frame = frame.f_back
        return False
