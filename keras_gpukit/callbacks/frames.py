"""The frames of Keras' own calls, where callbacks are told too little.

Private name, seen on Keras 3.12 to 3.15: `epoch_iterator`, a local of `fit` and `evaluate`. Where
it is gone, pipelines without a model stay unknown.
"""

from __future__ import annotations

import sys
from types import FrameType
from typing import Any


def find_frame(function: str) -> FrameType | None:
    """Returns the innermost call of a function under way on this thread, or None.

    Args:
        function: Its name, such as "fit".
    """
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_name != function:
        frame = frame.f_back
    return frame


def epoch_iterator(function: str) -> Any:
    """Returns what Keras' `fit` or `evaluate` under way takes its iterators from, or None."""
    frame = find_frame(function)
    return None if frame is None else frame.f_locals.get("epoch_iterator")
