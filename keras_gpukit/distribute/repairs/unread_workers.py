"""Builds a model without reading from the workers of a `keras.utils.PyDataset`.

Under a strategy, Keras 3.12 to 3.15 reads a batch to build the model by, and begins the data again.
With `workers=2` or more, what the workers had made ahead by then is given in the first epoch, where
other batches are missing, and each later epoch begins with what the one before has left. Here the
model is built from the types and shapes that Keras knows already.

Private names, seen on Keras 3.12 and 3.15: `TFEpochIterator.data_adapter`, and `.enqueuer` and
`._output_signature` of `PyDatasetAdapter`.
"""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any


def reads_a_batch(trainer: Any) -> bool:
    """Whether Keras has the fault: tried with stand-ins."""

    class Epochs(list[Any]):
        """Iterates over epochs of data that workers make."""

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
    """Repairs it, for a `PyDataset` with workers."""
    original = trainer.TensorFlowTrainer._maybe_symbolic_build

    def _maybe_symbolic_build(self: Any, iterator: Any = None, data_batch: Any = None) -> None:
        adapter: Any = getattr(iterator, "data_adapter", None)
        if getattr(adapter, "enqueuer", None) is not None:
            data_batch, iterator = adapter._output_signature, None
        original(self, iterator=iterator, data_batch=data_batch)

    trainer.TensorFlowTrainer._maybe_symbolic_build = _maybe_symbolic_build
