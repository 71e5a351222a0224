"""Whether a call of `fit` still runs.

Keras tells callbacks nothing when `fit` ends by an exception. The call's frame does: once it is
on no thread's stack, the call is over.
"""

from __future__ import annotations

import sys
import threading

from keras_gpukit.callbacks.frames import find_frame


class RunningCall:
    """The innermost call of a function under way on this thread.

    Args:
        function: Name of the function, such as "fit".
    """

    def __init__(self, function: str) -> None:
        # None where callbacks are driven by a loop of the user's own: then nobody can tell.
        self._frame = find_frame(function)
        self._thread = threading.get_ident()

    def forget(self) -> None:
        """Lets the frame go, which holds all that the call held: its data first of all."""
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
