"""Pipelines whose caches and shuffle buffers take a known amount of host memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

BATCH = 32
SIDE = 64
IMAGES = 6400


def pipelines() -> dict[str, Callable[[], Any]]:
    """Returns what makes each pipeline: pairs of an image, or something else, and a number."""
    import tensorflow as tf

    def numbers(count: int = IMAGES) -> Any:
        return tf.data.Dataset.range(count)

    def image(number: Any) -> Any:
        noise = tf.random.stateless_uniform((SIDE, SIDE, 3), (number, 0))
        return noise, tf.cast(number % 2, tf.float32)

    def as_bytes(number: Any) -> Any:
        noise, label = image(number)
        return tf.cast(noise * 255, tf.uint8), label

    def text(number: Any) -> Any:
        return tf.strings.reduce_join(
            tf.repeat(tf.strings.as_string(number + 1_000_000), 2000)
        ), 0.0

    def of_any_size(number: Any) -> Any:
        side = tf.cast(SIDE // 2 + number % SIDE, tf.int32)
        return tf.zeros(tf.stack((side, side, 3))) + 1.0, 0.0

    def few(number: Any) -> Any:
        return tf.fill((8,), tf.cast(number, tf.float32)), 0.0

    def length(words: Any, label: Any) -> Any:
        return tf.cast(tf.strings.length(words), tf.float32)[None], label

    def resized(picture: Any, label: Any) -> Any:
        return tf.reduce_mean(picture, (0, 1)), label

    def held() -> Any:
        return tf.data.Dataset.from_tensor_slices(
            (tf.ones((IMAGES, SIDE, SIDE, 3)), tf.zeros((IMAGES,)))
        )

    return {
        "cache of images": lambda: numbers().map(image).cache().batch(BATCH),
        "cache of batches of bytes": lambda: numbers(3 * IMAGES).map(as_bytes).batch(BATCH).cache(),
        "cache, then shuffle": lambda: (
            numbers().map(image).cache().shuffle(IMAGES // 4).batch(BATCH)
        ),
        "shuffle": lambda: numbers().map(image).shuffle(IMAGES // 2).batch(BATCH),
        "cache of texts": lambda: numbers().map(text).cache().map(length).batch(BATCH),
        "cache of images of any size": lambda: (
            numbers().map(of_any_size).cache().map(resized).batch(BATCH)
        ),
        "cache of small tensors": lambda: numbers(50 * IMAGES).map(few).cache().batch(50 * BATCH),
        "cache of slices of an array": lambda: held().cache().batch(BATCH),
    }


def model(dataset: Any) -> Any:
    """Returns a model that trains on a pipeline."""
    import keras

    shape = dataset.element_spec[0].shape[1:]
    layers = [keras.layers.GlobalAveragePooling2D()] if len(shape) == 3 else []
    scaled = [keras.layers.Rescaling(1 / 255.0)] if shape.rank and layers else []
    built = keras.Sequential([keras.Input(shape), *scaled, *layers, keras.layers.Dense(1)])
    built.compile("sgd", "mse", jit_compile=False)
    return built
