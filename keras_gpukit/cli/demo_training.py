"""The demo's training: a small convolutional network, monitored."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from keras_gpukit.cli.demo_pipelines import SIDE
from keras_gpukit.configure.setup import GPUSetup
from keras_gpukit.records.run import RunSummary

EPOCHS = 15


def train(dataset: Any, setup: GPUSetup, log_dir: Path) -> RunSummary:
    """Trains a new network, and prints the verdict on the run.

    Returns:
        Summary of the run.
    """
    import keras

    import keras_gpukit as gpukit

    keras.utils.set_random_seed(0)  # both runs start from the same weights
    with setup.scope():
        model = _build_model()
    monitor = gpukit.Monitor(log_dir, verbose=1)
    # The pipelines shuffle; without shuffle=False Keras warns that it cannot.
    model.fit(dataset, epochs=EPOCHS, shuffle=False, callbacks=[monitor], verbose=0)
    assert monitor.summary is not None
    return monitor.summary


def _build_model() -> Any:
    """Returns a network that predicts which photograph a piece is from."""
    import keras

    model = keras.Sequential(
        [
            keras.Input((SIDE, SIDE, 3)),
            keras.layers.Rescaling(1 / 255),
            keras.layers.Conv2D(8, 3, strides=2, activation="relu"),
            keras.layers.Conv2D(16, 3, strides=2, activation="relu"),
            keras.layers.GlobalAveragePooling2D(),
            keras.layers.Dense(2, activation="softmax"),
        ]
    )
    model.compile(optimizer="adam", loss="sparse_categorical_crossentropy", metrics=["accuracy"])
    return model
