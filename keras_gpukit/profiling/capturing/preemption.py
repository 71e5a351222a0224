"""Lets other code start TensorFlow's profiler while we record: our capture ends first.

TensorFlow records one profile at a time, and raises an error when a second one is started. In a
user's callback, that error would end the training. So while we record, a replacement takes the
place of `tf.profiler.experimental.start`, both there and in the module that defines it, where
`tf.profiler.experimental.Profile` looks it up. Code that imported the function by name before that
still gets TensorFlow's error. So does TensorBoard's "capture profile", which shows the error in
the browser.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any


class StartReplacement:
    """Replaces the function that starts TensorFlow's profiler, while we record."""

    def __init__(self) -> None:
        self._instead: Any = None

    def put_in_place(self, preempted: Callable[[], None]) -> None:
        """Installs the replacement: other code that starts a profile then ends our capture first.

        Args:
            preempted: Called on any thread when other code starts a profile, before TensorFlow's
                function runs.
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
        """Restores TensorFlow's function, unless other code has replaced ours."""
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
