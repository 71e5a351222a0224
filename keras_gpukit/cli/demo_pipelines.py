"""The demo's two input pipelines: the same images, prepared in two ways."""

from __future__ import annotations

from typing import Any

SIDE = 64


def as_written(files: Any, batch_size: int) -> Any:
    """As many people write it: everything is repeated in each epoch."""
    return files.shuffle(len(files)).map(load).map(augment).batch(batch_size)


def as_advised(files: Any, batch_size: int) -> Any:
    """In parallel, cached where nothing is random, and prefetched."""
    import tensorflow as tf

    return (
        files.map(load, num_parallel_calls=tf.data.AUTOTUNE)
        .cache()
        .shuffle(len(files))
        .map(augment, num_parallel_calls=tf.data.AUTOTUNE)
        .batch(batch_size)
        .prefetch(tf.data.AUTOTUNE)
    )


def load(path: Any, label: Any) -> Any:
    """Reads, decodes and shrinks an image: expensive, and the same each time."""
    import tensorflow as tf

    image = tf.io.decode_jpeg(tf.io.read_file(path), channels=3)
    return tf.image.resize(image, (SIDE, SIDE), antialias=True), label


def augment(image: Any, label: Any) -> Any:
    """Changes an image at random, differently each time."""
    import tensorflow as tf

    image = tf.image.random_flip_left_right(image)
    return tf.image.random_brightness(image, max_delta=20.0), label
