"""Keras' `fit`, `evaluate` and `predict` as a whole, and the callbacks that they call."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Sequence
from typing import Any

from keras_gpukit.records.script import METHODS

STEP_FUNCTIONS = {
    "fit": ("train_function", "test_function"),
    "evaluate": ("test_function",),
    "predict": ("predict_function",),
    "train_on_batch": ("train_function",),
    "test_on_batch": ("test_function",),
    "predict_on_batch": ("predict_function",),
}
"""Attributes with the step functions that a call traces if they are None."""


def on_each_list(action: Callable[[str, Any, int], None]) -> None:
    """Calls an action with the callback list of each `fit`, `evaluate` and `predict`, once created.

    The list is created within the method, even if a subclass overrides it. It contains the
    callbacks of any nested list that the caller gave. No frame of this function is on the stack
    while the method runs. The validation of a `fit` uses the list of the `fit`.
    Only `fit` creates its list with `add_history=True`; if it no longer does, no `fit` is found.

    Args:
        action: Called with the method's name, the list, and the number of callbacks that the caller
            gave. Callbacks that Keras adds come after these.
    """
    import keras

    original = keras.callbacks.CallbackList.__init__

    @functools.wraps(original)
    def made(
        self: Any, callbacks: Any = None, add_history: bool = False, *args: Any, **kwargs: Any
    ) -> None:
        original(self, callbacks, add_history, *args, **kwargs)
        method = sys._getframe(1).f_code.co_name
        # The script's own training loop may create such a list too, and use it differently.
        if add_history if method == "fit" else method in ("evaluate", "predict"):
            action(method, self, len(keras.tree.flatten(callbacks)) if callbacks else 0)

    keras.callbacks.CallbackList.__init__ = made


def around_each_call(around: Callable[[Any, Any], Any], methods: Sequence[str] = METHODS) -> None:
    """Wraps methods of every model: `fit`, `evaluate`, `predict` and those for one batch."""
    import keras
    from keras.src.utils import traceback_utils

    for method in methods:
        owner = next(kind for kind in keras.Model.__mro__ if method in vars(kind))
        original = vars(owner)[method]
        inner = getattr(original, "__wrapped__", None)
        if inner is None:
            wrapped = around(method, original)
        else:  # below Keras' own decorator, which removes the wrapper's frame from tracebacks
            wrapped = traceback_utils.filter_traceback(around(method, inner))
        setattr(owner, method, wrapped)


def leave_out_of_tracebacks(folder: str) -> None:
    """Makes Keras remove the frames of a folder's code from tracebacks, as its own, if it can."""
    from keras.src.utils import traceback_utils

    excluded = getattr(traceback_utils, "_EXCLUDED_PATHS", None)
    if isinstance(excluded, tuple) and folder not in excluded:
        traceback_utils._EXCLUDED_PATHS = (*excluded, folder)


def is_default(hook: Any) -> bool:
    """Whether a callback's hook is Keras' own, which does nothing."""
    return hasattr(hook, "_is_default")


def profiles_batches(tensorboard: Any) -> bool:
    """Whether Keras' `TensorBoard` captures profiles; False if unknown."""
    return bool(getattr(tensorboard, "_should_trace", False))


def profiled_batches(tensorboard: Any) -> tuple[int, int]:
    """Returns the first and last batch that Keras' `TensorBoard` captures; 0 if unknown."""
    return getattr(tensorboard, "_start_batch", 0), getattr(tensorboard, "_stop_batch", 0)
