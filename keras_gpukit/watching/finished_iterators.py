"""Iterators that Keras is done with, freed on threads while training goes on.

TensorFlow frees an iterator once the thread that tunes its pipeline has ended. That thread can miss
that it is to end: it is woken before the cancellation counts as done (`Model::OptimizeLoop` and
`CancellationManager` of TensorFlow 2.21), and sleeps on to its next tuning, which is about as far
away as the iterator is old, up to a minute. Keras makes an iterator for each epoch and frees the
one before at the new one's first batch: in about a third of short epochs training stands still.

Nothing else changes: such an iterator has given all of its epoch's batches.
"""

from __future__ import annotations

import sys
import threading
import time
from contextlib import suppress
from typing import Any

from keras_gpukit.errors import Guard
from keras_gpukit.pipelines.kinds import kind
from keras_gpukit.pipelines.structure import cache_file, dataset_of, once_per_dataset, stages

# Keras lets go of an iterator soon after it is done with it; should it not, it frees it itself.
HOLD_S = 1.0
LOOK_EVERY_S = 0.02
# Starting a thread takes a tenth of a millisecond; the iterators of short epochs go together.
FREE_EVERY_S = 0.05
THREAD_NAME = "gpukit-free-iterators"
# The list that holds it, and the argument of `sys.getrefcount`.
OWN_REFERENCES = 2


class FinishedIterators:
    """Keeps iterators until Keras has let go of them, and frees them on threads."""

    def __init__(self) -> None:
        self._guard = Guard("Keeping an epoch's iterator", "Keras frees it.")
        self._kept: list[Any] = []
        self._due_s = 0.0

    def keep(self, iterator: Any, epoch_iterator: Any) -> None:
        """Keeps an iterator whose epoch is over, if it may be freed later than by Keras.

        Never raises: Keras frees what is not kept.

        Args:
            iterator: What the step function was given.
            epoch_iterator: What Keras took it from; None where that is not known.
        """
        with self._guard:
            # With a number of steps Keras goes on with the same one, or leaves it halfway.
            ends = epoch_iterator is not None and epoch_iterator.steps_per_epoch is None
            if ends and _can_wait(iterator) and not any(each is iterator for each in self._kept):
                self._kept.append(iterator)

    def free(self) -> None:
        """Frees on a thread what was kept, which Keras lets go of by now; not after each epoch."""
        if self._kept and (now_s := time.monotonic()) >= self._due_s:
            self._due_s = now_s + FREE_EVERY_S
            self.release()

    def release(self) -> None:
        """Frees what was kept on a thread."""
        kept, self._kept = self._kept, []
        if kept:
            # Python waits for it at exit, as it would for an iterator freed then.
            thread = threading.Thread(target=_free, args=(kept,), name=THREAD_NAME)
            with suppress(RuntimeError):  # where no thread starts any more they are freed here
                thread.start()


def _free(kept: list[Any]) -> None:
    until_s = time.monotonic() + HOLD_S
    while kept:
        while sys.getrefcount(kept[-1]) > OWN_REFERENCES and time.monotonic() < until_s:
            time.sleep(LOOK_EVERY_S)
        kept.pop()  # TensorFlow lets other threads run meanwhile


def _can_wait(iterator: Any) -> bool:
    """Whether a `tf.data.Iterator` may be freed after the next one over its pipeline was made."""
    import tensorflow as tf

    dataset = dataset_of(iterator) if isinstance(iterator, tf.data.Iterator) else None
    return dataset is not None and not _locks_files(dataset)


@once_per_dataset
def _locks_files(dataset: Any) -> bool:
    """Whether a pipeline writes files that its next iterator needs as this one leaves them."""
    return any(
        (kind(stage) == "Cache" and cache_file(stage) != "") or kind(stage) in ("Snapshot", "Save")
        for stage in stages(dataset)
    )
