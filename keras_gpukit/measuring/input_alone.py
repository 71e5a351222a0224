"""Reads an input as `fit` does, by Keras' own workers, queue and iterator, without a model."""

from __future__ import annotations

from typing import Any

from keras_gpukit.measuring.inside_fit import Experiment, within_fit


def without_model(source: Any, experiment: Experiment) -> None:
    """Runs an experiment with the iterator that Keras makes over a source.

    Args:
        source: Anything that `fit` accepts, without an end.
        experiment: Called with a step that does nothing, and the iterator.

    Raises:
        ValueError: If the source ran out of batches.
    """
    import keras

    class Idle(keras.Model):  # type: ignore[misc]
        def train_step(self, data: Any) -> dict[str, Any]:
            return {}

    model = Idle()
    model.compile(jit_compile=False)
    within_fit(model, source, experiment)
