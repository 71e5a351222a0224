"""How many threads are inside a Python function, by looking at their stacks now and then."""

from __future__ import annotations

import sys
from types import CodeType, FrameType

# Fewer looks say little; one comes each second.
MINIMUM_LOOKS = 10
# How far up a stack the function is looked for: Keras calls it directly.
DEEPEST = 50


class PythonTimeSensor:
    """Looks at all threads' stacks. Nothing is switched on or hooked into."""

    def __init__(self, code: CodeType) -> None:
        self._code = code
        self._looks = 0
        self._inside = 0

    def read(self) -> None:
        """Looks once."""
        self._looks += 1
        self._inside += sum(self._is_inside(frame) for frame in sys._current_frames().values())

    def mean_threads(self) -> float | None:
        """Threads inside the function on average; None after too few looks.

        None also where no look met it: a look needs the GIL, and may get it only when the function
        has returned.
        """
        if not self._inside or self._looks < MINIMUM_LOOKS:
            return None
        return self._inside / self._looks

    def _is_inside(self, frame: FrameType | None) -> bool:
        for _ in range(DEEPEST):
            if frame is None:
                return False
            if frame.f_code is self._code:
                return True
            frame = frame.f_back
        return False
