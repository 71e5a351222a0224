"""The stack frame of Keras' running `fit`, `evaluate` or `predict`.

Keras passes callbacks neither what the call iterates over, nor each other, nor that the call ended
by an exception. Its frame holds the first two, and is on no thread's stack after the third.

Private names, seen on Keras 3.12 to 3.15, locals of `fit`, `evaluate` and `predict`:
`epoch_iterator`, without which the wait of pipelines without a model stays unknown; `epochs` and
`initial_epoch`, without which fetches are also timed where they show nothing; `x`, `y` and
`sample_weight`, without which `keras-gpukit batch-size` cannot read a `PyDataset` or arrays; and
`callbacks`, without which captures may collide with those of `keras.callbacks.TensorBoard`
(TensorFlow records one profile at a time, and the first to start gets it), the exception of another
callback is not known, and what callbacks after ours do in `on_epoch_begin` counts as the epoch's
start.
"""

from __future__ import annotations

import inspect
import sys
import threading
from types import FrameType
from typing import Any

import numpy as np


class CallFrame:
    """The innermost running call of a function on this thread.

    Args:
        function: Name of the function, such as "fit".
    """

    def __init__(self, function: str) -> None:
        # None where a loop in user code drives the callbacks: its end cannot be seen.
        self._frame = _find_frame(function)
        self._thread = threading.get_ident()

    def forget(self) -> None:
        """Releases the frame, which holds everything the call held: its data first of all."""
        self._frame = None

    @property
    def over(self) -> bool:
        """Whether the call has ended."""
        if self._frame is None:
            return False
        # The frames of all threads take ten times as long.
        on_this_thread = threading.get_ident() == self._thread
        frame = sys._getframe(1) if on_this_thread else sys._current_frames().get(self._thread)
        while frame is not None and frame is not self._frame:
            frame = frame.f_back
        return frame is None


def epoch_iterator(function: str) -> Any:
    """Returns what Keras' running `fit` or `evaluate` takes its iterators from, or None."""
    return _local(function, "epoch_iterator")


def batch_of_fit() -> tuple[Any, int | None]:
    """Returns what a batch of Keras' running `fit` is made of, and its examples; None if unknown.

    Also needs `_distributed_dataset` and `data_adapter` of what `epoch_iterator` is.
    """
    source = epoch_iterator("fit")
    dataset = getattr(source, "_distributed_dataset", None)
    batch_size = getattr(getattr(source, "data_adapter", None), "batch_size", None)
    return getattr(dataset, "element_spec", None), batch_size


def dataset_of_fit() -> Any:
    """Returns the `tf.data.Dataset` that Keras' running `fit` trains on, or None.

    Also needs `_distributed_dataset` of what `epoch_iterator` is.
    """
    import tensorflow as tf

    dataset = getattr(epoch_iterator("fit"), "_distributed_dataset", None)
    return dataset if isinstance(dataset, tf.data.Dataset) else None


def first_batch_of_fit() -> int | None:
    """Returns the examples in the first batch of Keras' running `fit`, which it reads; or None."""
    import tensorflow as tf

    dataset = dataset_of_fit()
    for batch in () if dataset is None else dataset:
        tensors = [each for each in tf.nest.flatten(batch) if each is not None]
        return int(tensors[0].shape[0]) if tensors and tensors[0].shape.rank else None
    return None


def data_of_fit() -> Any:
    """Returns what Keras' running `fit` trains on: its `PyDataset`, else a dataset of batches."""
    import keras

    given = _local("fit", "x")
    if isinstance(given, keras.utils.PyDataset):
        return given
    return getattr(epoch_iterator("fit"), "_distributed_dataset", None)


def arrays_of_fit() -> tuple[Any, ...] | None:
    """Returns the NumPy arrays that Keras' running `fit` got; None where it got something else."""
    given = [_local("fit", name) for name in ("x", "y", "sample_weight")]
    arrays = tuple(each for each in given if each is not None)
    are_known = len(arrays) > 1 and all(isinstance(each, np.ndarray) for each in arrays)
    return arrays if are_known else None


def has_one_epoch(function: str) -> bool:
    """Returns whether Keras' running `fit` has a single epoch; False where that is unknown."""
    epochs, initial = _local(function, "epochs"), _local(function, "initial_epoch")
    return isinstance(epochs, int) and epochs - (initial or 0) == 1


def callback_list(function: str) -> Any:
    """Returns the `keras.callbacks.CallbackList` of the running call, or None."""
    found = _local(function, "callbacks")
    return found if hasattr(found, "callbacks") else None


def callbacks_of_fit() -> tuple[Any, ...]:
    """Returns all callbacks of the running `fit`."""
    return tuple(getattr(callback_list("fit"), "callbacks", ()))


def _local(function: str, name: str) -> Any:
    frame = _find_frame(function)
    if frame is None:
        return None
    values = frame.f_locals
    found = values.get(name)
    if sys.version_info < (3, 13):
        # Until then it is a copy that Python keeps with the frame. It would hold the epoch's
        # iterator beyond the epoch, and freeing one can take seconds.
        values.clear()
    return found


def _find_frame(function: str) -> FrameType | None:
    frame: FrameType | None = sys._getframe(1)
    # A class body of that name is no call; its values are the class's own.
    while frame is not None and not (
        frame.f_code.co_name == function and frame.f_code.co_flags & inspect.CO_OPTIMIZED
    ):
        frame = frame.f_back
    return frame
