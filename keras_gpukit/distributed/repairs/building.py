"""Builds a model without a batch that several workers share, or that a `PyDataset` prepares.

Under a `MultiWorkerMirroredStrategy`, Keras 3.12 to 3.15 builds the model from a distributed batch,
which no layer accepts (`Attempt to convert a value (PerReplica…`,
https://github.com/keras-team/keras/issues/20585). Here it is built from this worker's part, since
only shapes and dtypes matter.

Under any strategy it reads a batch to build the model, and then restarts the data. With `workers=2`
or more, the first epoch of a `keras.utils.PyDataset` gets the batches that the workers had prepared
by then, and lacks others. Each later epoch starts with batches left over from the previous one.
Here the model is built from the types and shapes that Keras already knows.

Private names, seen on Keras 3.12 and 3.15: `TFEpochIterator.data_adapter`, and `.enqueuer` and
`._output_signature` of `PyDatasetAdapter`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from keras_gpukit.distributed.repairs.keras_private import is_multi_worker
from keras_gpukit.sensors.older_keras import trainer_class


def build_from_own_part(trainer: Any) -> None:
    """Makes Keras build a model from this worker's part of a distributed batch."""

    def own_part(model: Any, iterator: Any) -> Any:
        import keras

        strategy = model._distribute_strategy
        if not is_multi_worker(strategy):
            return None
        _, _, batches = next(iter(iterator))
        local = strategy.experimental_local_results
        return keras.tree.map_structure(lambda value: local(value)[0], next(batches))

    _build_from(trainer, own_part)


def build_from_signature(trainer: Any) -> None:
    """Makes Keras build a model from types and shapes if its data is a `PyDataset` with workers."""

    def signature(model: Any, iterator: Any) -> Any:
        adapter: Any = getattr(iterator, "data_adapter", None)
        if getattr(adapter, "enqueuer", None) is None:
            return None
        return adapter._output_signature

    _build_from(trainer, signature)


def _build_from(trainer: Any, batch_of: Callable[[Any, Any], Any]) -> None:
    """Makes Keras build a model from a batch that a function returns, unless it returns None."""
    trains = trainer_class(trainer)
    original = trains._maybe_symbolic_build

    def _maybe_symbolic_build(self: Any, iterator: Any = None, data_batch: Any = None) -> None:
        given = None if iterator is None else batch_of(self, iterator)
        if given is not None:
            iterator, data_batch = None, given
        original(self, iterator=iterator, data_batch=data_batch)

    trains._maybe_symbolic_build = _maybe_symbolic_build
