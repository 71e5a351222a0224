"""Raw clocks of each execution, from which a way to measure the input stall can be developed."""

from __future__ import annotations

import gc
import time
from typing import Any

import keras
import tensorflow as tf


class Clocks(keras.callbacks.Callback):
    """Notes when executions start and finish, and the gaps between fetches as tf.data has them."""

    async_safe = True

    def __init__(self) -> None:
        super().__init__()
        self._entered_s: list[float] = []
        self._finished_s: list[float] = []
        self._fetched: list[int] = []
        self._gaps_us: list[list[int]] = []
        self._iterator: Any = None

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        if len(self._entered_s) == 1:  # the iterator has fetched by now
            alive = (each for each in gc.get_objects() if type(each).__name__ == "OwnedIterator")
            # Those of earlier fits have fetched more.
            begun = (each for each in alive if fetched(each)[0])
            self._iterator = min(begun, key=lambda each: fetched(each)[0], default=None)
        count, gaps_us = fetched(self._iterator)
        new = count - self._fetched[-1] if self._fetched else 0
        self._fetched.append(count)
        self._gaps_us.append(gaps_us[-new:] if new else [])
        self._entered_s.append(time.perf_counter())

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self._finished_s.append(time.perf_counter())

    def on_train_end(self, logs: Any = None) -> None:
        self._iterator = None

    def rows(self) -> dict[str, Any]:
        """Returns microseconds since the first entry.

        `finished_us` is when Keras had an execution's loss, `fetched` how many batches had been
        fetched at an entry, and `gaps_us` has the gaps that tf.data added since the entry before.
        """
        start_s = self._entered_s[0]
        return {
            "entered_us": [round(1e6 * (each - start_s)) for each in self._entered_s],
            "finished_us": [round(1e6 * (each - start_s)) for each in sorted(self._finished_s)],
            "fetched": self._fetched,
            "gaps_us": self._gaps_us,
        }


def fetched(iterator: Any) -> tuple[int, list[int]]:
    """Returns how many batches an iterator has fetched, and the last gaps; (0, []) if unknown."""
    try:
        model = tf.data.experimental.get_model_proto(iterator)
    except Exception:
        return 0, []
    return int(model.nodes[model.output].num_elements), list(model.gap_times)
