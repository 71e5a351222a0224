"""Frees iterators that Keras no longer needs on threads, while training continues.

TensorFlow frees an iterator once the thread that tunes its pipeline has ended. That thread can miss
its cancellation: it is woken before the cancellation counts as done (`Model::OptimizeLoop` and
`CancellationManager` of TensorFlow 2.21). It then sleeps until its next tuning, which takes about
as long as the iterator is old, up to a minute. Keras makes an iterator for each epoch and frees the
previous one at the first batch of the new one. In about a third of short epochs, training stalls.

Nothing else changes: such an iterator has already returned all batches of its epoch.
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

# Maximum time to wait until Keras releases an iterator. If it takes longer, Keras frees it.
HOLD_S = 1.0
LOOK_EVERY_S = 0.02
# Starting a thread takes 0.1 ms, so the iterators of short epochs are freed together.
FREE_EVERY_S = 0.05
THREAD_NAME = "gpukit-free-iterators"
# References to a kept iterator that are ours: the list, and the argument of `sys.getrefcount`.
OWN_REFERENCES = 2


class FinishedIterators:
    """Keeps iterators until Keras has released them, and frees them on threads."""

    def __init__(self) -> None:
        self._guard = Guard("Keeping an epoch's iterator", "Keras frees it.")
        self._kept: list[Any] = []
        self._due_s = 0.0

    def keep(self, iterator: Any, epoch_iterator: Any) -> None:
        """Keeps an iterator whose epoch is over, if it may be freed later than Keras would.

        Never raises: Keras frees the iterators that are not kept.

        Args:
            iterator: Iterator that was passed to the step function.
            epoch_iterator: Keras' `EpochIterator` that the iterator is from; None if unknown.
        """
        with self._guard:
            # With `steps_per_epoch`, Keras continues with the same iterator, or stops halfway.
            ends = epoch_iterator is not None and epoch_iterator.steps_per_epoch is None
            if ends and _can_wait(iterator) and not any(each is iterator for each in self._kept):
                self._kept.append(iterator)

    def free(self) -> None:
        """Frees kept iterators on a thread, which Keras releases now; at most every 0.05 s."""
        if self._kept and (now_s := time.monotonic()) >= self._due_s:
            self._due_s = now_s + FREE_EVERY_S
            self.release()

    def release(self) -> None:
        """Frees all kept iterators on a thread."""
        kept, self._kept = self._kept, []
        if kept:
            # Python waits for this thread at exit, as it would for an iterator freed at exit.
            thread = threading.Thread(target=_free, args=(kept,), name=THREAD_NAME)
            with suppress(RuntimeError):  # if no thread can be started, they are freed here
                thread.start()


def _free(kept: list[Any]) -> None:
    until_s = time.monotonic() + HOLD_S
    while kept:
        while sys.getrefcount(kept[-1]) > OWN_REFERENCES and time.monotonic() < until_s:
            time.sleep(LOOK_EVERY_S)
        kept.pop()  # TensorFlow releases the GIL meanwhile


def _can_wait(iterator: Any) -> bool:
    """Whether a `tf.data.Iterator` may be freed after its pipeline's next iterator was made."""
    import tensorflow as tf

    dataset = dataset_of(iterator) if isinstance(iterator, tf.data.Iterator) else None
    return dataset is not None and not _locks_files(dataset)


@once_per_dataset
def _locks_files(dataset: Any) -> bool:
    """Whether a pipeline writes files that its next iterator needs in their final state."""
    return any(
        (kind(stage) == "Cache" and cache_file(stage) != "") or kind(stage) in ("Snapshot", "Save")
        for stage in stages(dataset)
    )
