"""Transfer learning: train a head on frozen layers, then fine-tune all of them.

The base is trained here, so that the example needs no download. For real work, replace
`pretrained()` by one of `keras.applications` with `weights="imagenet"`.

Each call of `fit` is a run with its own folder and verdict. Steps with frozen layers compute fewer
gradients, so they are shorter and may wait longer for their input.

    python examples/transfer_learning.py
"""

import keras
import numpy as np
from keras import layers

import keras_gpukit as gpukit

setup = gpukit.configure_gpus(mixed_precision="auto")

SIDE = 32
BATCH_SIZE = setup.global_batch_size(32)


def stripes(count: int, angles: tuple[float, ...], rng: np.random.Generator) -> tuple:
    """Returns images of stripes in noise, and for each the index of its angle."""
    y, x = np.mgrid[:SIDE, :SIDE]
    labels = rng.integers(0, len(angles), count)
    angle = np.array(angles)[labels, None, None]
    waves = np.sin(0.8 * (x * np.cos(angle) + y * np.sin(angle)) + rng.uniform(0, 6))
    images = waves + 0.3 * rng.normal(size=waves.shape)
    return images[..., None].astype("float32"), labels


def compiled(model: keras.Model, learning_rate: float = 1e-2) -> keras.Model:
    """Compiles a classifier; needed again whenever `trainable` was changed."""
    optimizer = keras.optimizers.Adam(learning_rate)
    model.compile(optimizer, "sparse_categorical_crossentropy", metrics=["accuracy"])
    return model


def classifier(base: keras.Model, classes: int) -> keras.Model:
    """Returns a model with a new head on a base."""
    inputs = keras.Input((SIDE, SIDE, 1))
    # Batch normalization stays in inference mode, also while it is fine-tuned.
    pooled = layers.GlobalAveragePooling2D()(base(inputs, training=False))
    return keras.Model(inputs, layers.Dense(classes, activation="softmax", dtype="float32")(pooled))


def pretrained() -> keras.Model:
    """Returns convolutional layers that were trained on four angles."""
    base = keras.Sequential([keras.Input((SIDE, SIDE, 1))])
    for filters in (16, 32):
        base.add(layers.Conv2D(filters, 3, strides=2, activation="relu"))
        base.add(layers.BatchNormalization())
    images, labels = stripes(1500, (0.0, 0.8, 1.6, 2.4), np.random.default_rng(0))
    compiled(classifier(base, 4)).fit(images, labels, batch_size=BATCH_SIZE, epochs=2, verbose=0)
    return base


images, labels = stripes(800, (0.4, 1.2), np.random.default_rng(1))

with setup.scope():
    base = pretrained()
    base.trainable = False
    model = compiled(classifier(base, 2))
head = gpukit.Monitor("logs/transfer_learning/head")
model.fit(images, labels, batch_size=BATCH_SIZE, epochs=3, callbacks=[head])

with setup.scope():
    base.trainable = True
    compiled(model, learning_rate=1e-4)
tuning = gpukit.Monitor("logs/transfer_learning/fine_tuning")
model.fit(images, labels, batch_size=BATCH_SIZE, epochs=2, callbacks=[tuning])
