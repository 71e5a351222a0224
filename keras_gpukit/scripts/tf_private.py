"""Private names of TensorFlow that timing a script's own loops needs, seen on TensorFlow 2.21.

`OwnedIterator.__next__` in `tensorflow.python.data.ops.iterator_ops`, which a `for` loop over a
dataset calls for each batch, and `OwnedIterator._iterator_resource`. Keras' `fit` and `evaluate` do
not call it, since their steps fetch batches in a graph. Without them, a script without `fit` is not
measured.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def wrap_takes(wrap: Callable[[Any], Any]) -> None:
    """Wraps the method by which a loop takes a batch."""
    from tensorflow.python.data.ops import iterator_ops

    iterator_ops.OwnedIterator.__next__ = wrap(iterator_ops.OwnedIterator.__next__)


def device_of(iterator: Any) -> str:
    """Returns the device that an iterator is on."""
    device: str = iterator._iterator_resource.device
    return device
