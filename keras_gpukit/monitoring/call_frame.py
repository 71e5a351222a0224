"""The stack frame of Keras' running `fit`, `evaluate` or `predict`.

Keras does not pass callbacks the data of the call or the other callbacks, and does not notify them
when an exception ends the call. The frame holds the data and the callbacks, and it is no longer on
any thread's stack once the call has ended.

Private names, seen on Keras 3.12 to 3.15. These are local variables of `fit`, `evaluate` and
`predict`. If one is missing:

- `epoch_iterator`: the input wait of pipelines without a tf.data model is unknown.
- `epochs`, `initial_epoch`: fetches are also timed in a single epoch of one step, where their times
  show nothing.
- `x`, `y`, `sample_weight`: `keras-gpukit batch-size` cannot read a `PyDataset` or arrays.
- `callbacks`: captures may collide with those of `keras.callbacks.TensorBoard`, since TensorFlow
  records one profile at a time and the first to start gets it. Exceptions of other callbacks are
  unknown, and what callbacks after ours do in `on_epoch_begin` counts as epoch start.
"""

from __future__ import annotations

import inspect
import itertools
import sys
import threading
from types import FrameType
from typing import Any

import numpy as np

from keras_gpukit.frameworks.keras_trainer import epoch_dataset, first_batches_in
from keras_gpukit.frameworks.tf_datasets import batch_size as batch_size_of
from keras_gpukit.sensors.stacks import outwards, stack_of_thread

_PAUSES = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR


class CallFrame:
    """Stack frame of the innermost running call of a function on this thread."""

    def __init__(self, function: str) -> None:
        # None if a loop in user code drives the callbacks: its end cannot be seen.
        self._frame = _find_frame(function)
        self.thread = threading.get_ident()

    def forget(self) -> None:
        """Releases the frame, which keeps everything in the call alive, such as its data."""
        self._frame = None

    def stack(self) -> list[FrameType]:
        """Returns the frames within the call, innermost first; the whole stack if unknown."""
        frames = stack_of_thread(self.thread)
        return list(itertools.takewhile(lambda frame: frame is not self._frame, frames))

    @property
    def over(self) -> bool:
        """Whether the call has ended.

        A thread that goes on while its stack is read may leave a generator, which ends the stack
        that is read there: that does not show what was called from where.
        """
        if self._frame is None:
            return False
        # Reading the frames of all threads takes ten times longer.
        on_this_thread = threading.get_ident() == self.thread
        frames = outwards(sys._getframe(1)) if on_this_thread else stack_of_thread(self.thread)
        outermost = None
        for outermost in frames:
            if outermost is self._frame:
                return False
        return outermost is None or not outermost.f_code.co_flags & _PAUSES


def epoch_iterator(function: str) -> Any:
    """Returns the `EpochIterator` of Keras' running `fit` or `evaluate`, or None."""
    return _local(function, "epoch_iterator")


def batch_of(function: str) -> tuple[Any, int | None]:
    """Returns the `element_spec` and the batch size of Keras' running call; None if unknown.

    The last batch of an epoch may be smaller. A `PyDataset` is trusted if it has a `batch_size`, as
    in Keras' documentation. A generator has the size of its first batches, if they are equal.
    """
    import keras
    import tensorflow as tf

    source = epoch_iterator(function)
    dataset = epoch_dataset(source)
    adapter = getattr(source, "data_adapter", None)
    firsts = [keras.tree.flatten(batch)[0] for batch in first_batches_in(adapter)]
    sizes = {array.shape[0] for array in firsts if getattr(array, "shape", ())}
    found = (
        getattr(adapter, "batch_size", None),
        batch_size_of(dataset) if isinstance(dataset, tf.data.Dataset) else None,
        getattr(getattr(adapter, "py_dataset", None), "batch_size", None),
        *(sizes if len(sizes) == 1 else ()),
    )
    size = next((value for value in found if isinstance(value, int)), None)
    return getattr(dataset, "element_spec", None), size


def open_shapes(spec: Any) -> tuple[str, ...]:
    """Returns the shapes of a batch's tensors that vary in more than the number of examples."""
    import tensorflow as tf

    shapes = [getattr(leaf, "shape", None) for leaf in tf.nest.flatten(spec)]
    return tuple(
        str(tuple(shape))
        for shape in shapes
        if isinstance(shape, tf.TensorShape) and shape.rank and None in tuple(shape)[1:]
    )


def examples_of(function: str) -> int | None:
    """Returns how many examples the arrays of Keras' running call have; None for other data."""
    import keras

    first = next(iter(keras.tree.flatten(_local(function, "x"))), None)
    shape = getattr(first, "shape", None)
    return shape[0] if shape else None


def dataset_of_fit() -> Any:
    """Returns the `tf.data.Dataset` that Keras' running `fit` trains on, or None."""
    import tensorflow as tf

    dataset = epoch_dataset(epoch_iterator("fit"))
    return dataset if isinstance(dataset, tf.data.Dataset) else None


def first_batch_of_fit() -> int | None:
    """Reads the first batch of Keras' running `fit`; returns its number of examples, or None."""
    import tensorflow as tf

    batch = next(iter(dataset_of_fit() or ()), None)
    tensors = [tensor for tensor in tf.nest.flatten(batch) if tensor is not None]
    return int(tensors[0].shape[0]) if tensors and tensors[0].shape.rank else None


def data_of_fit() -> Any:
    """Returns the `PyDataset` that Keras' running `fit` got, else its dataset of batches."""
    import keras

    given = _local("fit", "x")
    if isinstance(given, keras.utils.PyDataset):
        return given
    return epoch_dataset(epoch_iterator("fit"))


def arrays_of_fit() -> tuple[Any, ...] | None:
    """Returns the NumPy arrays that Keras' running `fit` got; None if it got something else."""
    given = [_local("fit", name) for name in ("x", "y", "sample_weight")]
    arrays = tuple(array for array in given if array is not None)
    are_known = len(arrays) > 1 and all(isinstance(array, np.ndarray) for array in arrays)
    return arrays if are_known else None


def epochs_of(function: str) -> int | None:
    """Returns how many epochs the running call has at most; None if unknown."""
    epochs, initial = _local(function, "epochs"), _local(function, "initial_epoch")
    return epochs - (initial or 0) if isinstance(epochs, int) else None


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
        # Before Python 3.13, this is a copy that Python keeps with the frame. It would keep the
        # iterator alive after its epoch, and freeing an iterator can take seconds.
        values.clear()
    return found


def _find_frame(function: str) -> FrameType | None:
    # A class body of that name is not a call, and its variables belong to the class.
    found = (
        frame
        for frame in outwards(sys._getframe(1))
        if frame.f_code.co_name == function and frame.f_code.co_flags & inspect.CO_OPTIMIZED
    )
    return next(found, None)
