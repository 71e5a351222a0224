"""Undocumented behavior of Keras that running an unchanged script relies on.

Seen on Keras 3.12 to 3.15: `fit` itself creates a `keras.callbacks.CallbackList` with
`add_history=True`, and `evaluate` and `predict` create theirs without it. If `fit` no longer does
so, no `fit` is found. `_EXCLUDED_PATHS` in `keras.src.utils.traceback_utils` lists the folders
whose frames Keras removes from tracebacks. Without it, exceptions that the script catches contain
frames of this package.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any

from keras_gpukit.running.tracebacks import PACKAGE


def on_each_fit(action: Callable[[Any, int], None]) -> Callable[[], None]:
    """Calls an action with the callback list of each `fit`, when the list is created.

    The list is created within `fit`, even if a subclass overrides `fit`. It contains the callbacks
    of any nested list that the caller gave. No frame of this function is on the stack while `fit`
    trains.

    Args:
        action: Called with the list, and with the number of callbacks that the caller gave.
            Callbacks that Keras adds come after these.

    Returns:
        A function that undoes this.
    """
    import keras

    original = keras.callbacks.CallbackList.__init__

    @functools.wraps(original)
    def made(
        self: Any, callbacks: Any = None, add_history: bool = False, *args: Any, **kwargs: Any
    ) -> None:
        original(self, callbacks, add_history, *args, **kwargs)
        # The script's own training loop may create such a list too, and use it differently.
        if add_history and sys._getframe(1).f_code.co_name == "fit":
            action(self, len(keras.tree.flatten(callbacks)) if callbacks else 0)

    keras.callbacks.CallbackList.__init__ = made

    def undo() -> None:
        keras.callbacks.CallbackList.__init__ = original

    return undo


def leave_out_of_tracebacks() -> None:
    """Makes Keras remove this package's frames from tracebacks, as it does its own."""
    from keras.src.utils import traceback_utils

    excluded = getattr(traceback_utils, "_EXCLUDED_PATHS", None)
    if isinstance(excluded, tuple) and PACKAGE not in excluded:
        traceback_utils._EXCLUDED_PATHS = (*excluded, PACKAGE)
