"""Lets other code start TensorFlow's profiler while it records for us: our capture ends first.

TensorFlow records one profile at a time, and raises an error when a second one is started, which
in a user's callback would end the training. So while we record, something stands in for
`tf.profiler.experimental.start`, there and in the module that defines it, in which
`tf.profiler.experimental.Profile` looks for it. Code that imported the function by its name before
gets TensorFlow's error; so does TensorBoard's "capture profile", which shows it in the browser.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any


class StartReplacement:
    """Stands in for TensorFlow's function that starts its profiler."""

    def __init__(self) -> None:
        self._instead: Any = None

    def put_in_place(self, preempted: Callable[[], None]) -> None:
        """From now on, other code that starts a profile ends our capture first.

        Args:
            preempted: Called when it does, before TensorFlow is; on any thread.
        """
        original = start_function()

        @functools.wraps(original)
        def start(*args: Any, **kwargs: Any) -> Any:
            preempted()
            return original(*args, **kwargs)

        start.gpukit_original = original  # type: ignore[attr-defined]
        self._instead = start
        _replace(original, start)

    def put_back(self) -> None:
        """Puts TensorFlow's function back, unless other code has replaced ours."""
        instead, self._instead = self._instead, None
        if instead is not None:
            _replace(instead, instead.gpukit_original)


def start_function() -> Any:
    """Returns the original `tf.profiler.experimental.start`, even while it is replaced."""
    import tensorflow as tf

    start = tf.profiler.experimental.start
    return getattr(start, "gpukit_original", start)


def _replace(function: Any, by: Any) -> None:
    import tensorflow as tf

    places: tuple[Any, ...] = (tf.profiler.experimental, sys.modules.get(by.__module__))
    for place in places:
        if getattr(place, "start", None) is function:
            place.start = by
