"""Image classification from files: a `tf.data` pipeline that keeps up with the model.

Draws JPEG files of circles and squares, reads them with `image_dataset_from_directory`, and trains
a small convolutional network. `cache()` keeps the decoded images, so that files are read only in
the first epoch, and `prefetch()` prepares batches while the model trains.

    python examples/image_files.py
"""

import tempfile
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf
from keras import layers

import keras_gpukit as gpukit

setup = gpukit.configure_gpus(mixed_precision="auto")

SIDE = 64
CLASSES = ("circle", "square")


def draw(shape: str, rng: np.random.Generator) -> np.ndarray:
    """Returns a noisy image of a bright shape."""
    y, x = np.mgrid[:SIDE, :SIDE]
    center, radius = rng.integers(20, SIDE - 20, size=2), rng.integers(8, 18)
    distances = np.abs([y - center[0], x - center[1]])
    inside = (np.hypot(*distances) if shape == "circle" else distances.max(axis=0)) < radius
    return (rng.integers(0, 120, (SIDE, SIDE, 3)) + 120 * inside[..., None]).astype("uint8")


# Prepare the data: a folder of JPEG files for each class.
folder, rng = Path(tempfile.mkdtemp()), np.random.default_rng(0)
for shape in CLASSES:
    (folder / shape).mkdir()
    for number in range(250):
        jpeg = tf.io.encode_jpeg(draw(shape, rng)).numpy()
        (folder / shape / f"{number}.jpg").write_bytes(jpeg)

train, validation = keras.utils.image_dataset_from_directory(
    folder,
    image_size=(SIDE, SIDE),
    batch_size=setup.global_batch_size(20),
    validation_split=0.2,
    subset="both",
    seed=0,
)
train = train.cache().shuffle(len(train)).prefetch(tf.data.AUTOTUNE)
validation = validation.cache().prefetch(tf.data.AUTOTUNE)

# Build and train the model.
with setup.scope():
    model = keras.Sequential(
        [
            keras.Input((SIDE, SIDE, 3)),
            layers.Rescaling(1 / 255),
            layers.Conv2D(16, 3, strides=2, activation="relu"),
            layers.Conv2D(32, 3, strides=2, activation="relu"),
            layers.GlobalMaxPooling2D(),
            layers.Dense(len(CLASSES), activation="softmax", dtype="float32"),
        ]
    )
    model.compile(
        keras.optimizers.Adam(3e-3), "sparse_categorical_crossentropy", metrics=["accuracy"]
    )

monitor = gpukit.Monitor("logs/image_files")
model.fit(train, validation_data=validation, epochs=6, callbacks=[monitor])
