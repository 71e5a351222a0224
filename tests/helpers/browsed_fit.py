"""A fit on the demo's images, watched and profiled, that goes on until a file asks it to end.

python browsed_fit.py LOG_DIR PIPELINE IMAGES
"""

import sys
from pathlib import Path

import keras
import tensorflow as tf

import keras_gpukit as gpukit
from keras_gpukit.cli import demo

BATCH = 32
CAPTURED_STEP = 34


class EndWhenAsked(keras.callbacks.Callback):
    """Ends the run after the epoch in which a file called "end" was made."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self.file = file

    def on_epoch_end(self, epoch, logs=None):
        self.model.stop_training = self.file.exists()


def build_model() -> keras.Model:
    layers = [
        keras.Input((demo.SIDE, demo.SIDE, 3)),
        keras.layers.Rescaling(1 / 255),
        keras.layers.Conv2D(8, 3, strides=2, activation="relu"),
        keras.layers.Conv2D(16, 3, strides=2, activation="relu"),
        keras.layers.GlobalAveragePooling2D(),
        keras.layers.Dense(2, activation="softmax"),
    ]
    model = keras.Sequential(layers)
    model.compile(
        "adam", "sparse_categorical_crossentropy", metrics=["accuracy"], jit_compile=False
    )
    return model


def main(log_dir: Path, pipeline: str, images: Path) -> None:
    files = tf.data.Dataset.from_tensor_slices(demo.image_files(images))
    dataset = getattr(demo, pipeline)(files, BATCH)
    callbacks = [
        gpukit.Monitor(log_dir),
        gpukit.Profiler(log_dir, at_steps=(CAPTURED_STEP,)),
        EndWhenAsked(log_dir / "end"),
    ]
    model = build_model()
    model.fit(dataset, epochs=1000, shuffle=False, verbose=0, callbacks=callbacks)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3]))
