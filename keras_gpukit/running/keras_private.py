"""What running an unchanged script needs to know of Keras beyond its documented interface.

Seen on Keras 3.12 to 3.15: `fit` itself makes a `keras.callbacks.CallbackList` with
`add_history=True`, which `evaluate` and `predict` do without; if it no longer does, no `fit` is
found. `keras.src.utils.traceback_utils
._EXCLUDED_PATHS` lists the folders whose frames Keras removes from tracebacks; without it, an
exception that the script catches has frames of this package.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any

from keras_gpukit.running.tracebacks import PACKAGE


def on_each_fit(action: Callable[[Any, int], None]) -> Callable[[], None]:
    """Calls with the callback list of each `fit`, when the list is made.

    The list is made within `fit`, also where a subclass overrides `fit`, and holds the callbacks of
    whatever nested list the caller gave. Nothing of this is on the stack while `fit` runs.

    Args:
        action: Called with the list, and with the number of callbacks that the caller gave: those
            that Keras adds come after them.

    Returns:
        What undoes it.
    """
    import keras

    original = keras.callbacks.CallbackList.__init__

    @functools.wraps(original)
    def made(
        self: Any, callbacks: Any = None, add_history: bool = False, *args: Any, **kwargs: Any
    ) -> None:
        original(self, callbacks, add_history, *args, **kwargs)
        # A loop of the script's own may make such a list too, and drive it as it likes.
        if add_history and sys._getframe(1).f_code.co_name == "fit":
            action(self, len(keras.tree.flatten(callbacks)) if callbacks else 0)

    keras.callbacks.CallbackList.__init__ = made

    def undo() -> None:
        keras.callbacks.CallbackList.__init__ = original

    return undo


def leave_out_of_tracebacks() -> None:
    """Has Keras remove this package's frames from tracebacks, as it does its own."""
    from keras.src.utils import traceback_utils

    excluded = getattr(traceback_utils, "_EXCLUDED_PATHS", None)
    if isinstance(excluded, tuple) and PACKAGE not in excluded:
        traceback_utils._EXCLUDED_PATHS = (*excluded, PACKAGE)
