"""Builds a model without reading from the workers of a `keras.utils.PyDataset`.

Under a strategy, Keras 3.12 to 3.15 reads a batch to build the model, and then restarts the data.
With `workers=2` or more, the first epoch gets the batches that the workers had prepared by then,
and lacks others. Each later epoch starts with batches left over from the previous one. Here the
model is built from the types and shapes that Keras already knows.

Private names, seen on Keras 3.12 and 3.15: `TFEpochIterator.data_adapter`, and `.enqueuer` and
`._output_signature` of `PyDatasetAdapter`.
"""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any


def reads_a_batch(trainer: Any) -> bool:
    """Whether Keras reads a batch to build a model; tested with stand-ins."""

    class Epochs(list[Any]):
        """Stands in for Keras' iterator over epochs of data that workers prepare."""

        data_adapter = SimpleNamespace(enqueuer=True, _output_signature=None)

    read: list[int] = []
    strategy = SimpleNamespace(scope=nullcontext)
    model = SimpleNamespace(
        _distribute_strategy=strategy,
        distribute_strategy=strategy,
        _symbolic_build=lambda **_: None,
    )
    batches = map(read.append, range(1))
    trainer.TensorFlowTrainer._maybe_symbolic_build(model, iterator=Epochs([(0, 0, batches)]))
    return bool(read)


def build_from_signature(trainer: Any) -> None:
    """Makes Keras build a model from types and shapes if its data is a `PyDataset` with workers."""
    original = trainer.TensorFlowTrainer._maybe_symbolic_build

    def _maybe_symbolic_build(self: Any, iterator: Any = None, data_batch: Any = None) -> None:
        adapter: Any = getattr(iterator, "data_adapter", None)
        if getattr(adapter, "enqueuer", None) is not None:
            data_batch, iterator = adapter._output_signature, None
        original(self, iterator=iterator, data_batch=data_batch)

    trainer.TensorFlowTrainer._maybe_symbolic_build = _maybe_symbolic_build
