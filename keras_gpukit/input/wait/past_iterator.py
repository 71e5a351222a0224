"""Frees the iterators of epochs that are over on a thread of their own.

tf.data frees an iterator only once the thread that tunes its pipeline has ended. That thread is
woken before it is marked as cancelled, so it may go back to sleep until its next round: 10 ms after
the first one, and twice as long after each, up to a minute (`Model::OptimizeLoop`). Training waits
for it at the next epoch's start and at the end of the call: see `benchmarks/epoch_starts.py`.
Threads that wake up now and then, as those of this package do, make it more likely.
"""

from __future__ import annotations

import sys
import threading
import time
from typing import Any

from keras_gpukit.frameworks.tf_iterators import host_iterator

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
