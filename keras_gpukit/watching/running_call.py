"""The running call of Keras' `fit`, `evaluate` or `predict`, read from its stack frame.

Keras passes callbacks neither what the call iterates over, nor that it ended by an exception. Its
frame holds the one, and is on no thread's stack after the other.

Private name, seen on Keras 3.12 to 3.15: `epoch_iterator`, a local of `fit` and `evaluate`. Without
it, the wait of pipelines without a model stays unknown.
"""

from __future__ import annotations

import sys
import threading
from types import FrameType
from typing import Any


def find_frame(function: str) -> FrameType | None:
    """Returns the innermost running call of a function on this thread, or None.

    Args:
        function: Its name, such as "fit".
    """
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_name != function:
        frame = frame.f_back
    return frame


def epoch_iterator(function: str) -> Any:
    """Returns what Keras' running `fit` or `evaluate` takes its iterators from, or None."""
    frame = find_frame(function)
    return None if frame is None else frame.f_locals.get("epoch_iterator")


class RunningCall:
    """The innermost running call of a function on this thread.

    Args:
        function: Name of the function, such as "fit".
    """

    def __init__(self, function: str) -> None:
        # None where a loop in user code drives the callbacks: its end cannot be seen.
        self._frame = find_frame(function)
        self._thread = threading.get_ident()

    def forget(self) -> None:
        """Releases the frame, which holds everything the call held: its data first of all."""
        self._frame = None

    @property
    def over(self) -> bool:
        """Whether the call has ended."""
        if self._frame is None:
            return False
        frame = sys._current_frames().get(self._thread)
        while frame is not None:
            if frame is self._frame:
                return False
            frame = frame.f_back
        return True
