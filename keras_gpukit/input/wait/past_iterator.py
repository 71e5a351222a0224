"""Frees the iterators of epochs that are over on a thread of their own.

tf.data frees an iterator only once the thread that tunes its pipeline has ended. That thread is
woken before it is marked as cancelled, so it may go back to sleep until its next round: 10 ms after the
first one, and twice as long after each, up to a minute (`Model::OptimizeLoop` of TensorFlow 2.21).
How often that happens depends on how fast a core wakes up. In eight epochs of a small model it
happened in 1 of 21 epochs, and in 8 of 21 while threads of this package woke up several times a
second: training waited up to 5 s for the old iterator, at the next epoch's start or the call's end.
"""

from __future__ import annotations

import sys
import threading
import time
from typing import Any

from keras_gpukit.input.wait.tf_private import host_iterator

_UNTIL_ENDED_S = 1.0
"""Longest wait for a call to let go of its last iterator; our choice. The call ends meanwhile."""
_LOOK_EVERY_S = 0.01
_OURS = 2  # references to an object in a list, seen by `sys.getrefcount`


class PastIterator:
    """Keeps the iterator of the current epoch, so that training does not wait for its end."""

    def __init__(self) -> None:
        self._held: list[Any] = []

    def follow(self, iterator: Any) -> None:
        """Keeps an iterator from here on in place of the one before."""
        if not self._held or iterator is not self._held[0]:
            self.free()
            if host_iterator(iterator) is not None:
                self._held = [iterator]

    def free(self) -> None:
        """Lets go of the iterator once Keras has done so."""
        held, self._held = self._held, []
        if held:
            # No daemon: what frees it must not be cut off by the end of the interpreter.
            threading.Thread(target=_free, args=(held,), name="frees an iterator").start()


def _free(held: list[Any]) -> None:
    until_s = time.monotonic() + _UNTIL_ENDED_S
    while sys.getrefcount(held[0]) > _OURS and time.monotonic() < until_s:
        time.sleep(_LOOK_EVERY_S)
    held.clear()
