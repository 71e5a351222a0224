"""A training script as people write them: image files, decoding, augmentation, a conv net.

    python image_training.py FOLDER IMAGES SIDE EPOCHS [fixed]

Writes the images first, if there are none. "fixed" follows the advice for its input pipeline.
"""

import sys
from pathlib import Path

import keras
import tensorflow as tf
from keras import layers

FOLDER, IMAGES, SIDE, EPOCHS = Path(sys.argv[1]), *map(int, sys.argv[2:5])
FIXED = "fixed" in sys.argv
BATCH, CLASSES = 32, 10


def write_images() -> None:
    coarse = tf.random.stateless_uniform((8, 12, 12, 3), (1, 2), maxval=255.0)
    smooth = tf.cast(tf.image.resize(coarse, (2 * SIDE, 2 * SIDE), "bicubic"), tf.uint8)
    encoded = [tf.io.encode_jpeg(each).numpy() for each in smooth]
    FOLDER.mkdir(parents=True, exist_ok=True)
    for number in range(IMAGES):
        (FOLDER / f"{number}.jpg").write_bytes(encoded[number % len(encoded)])


def load(path: tf.Tensor, label: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    image = tf.io.decode_jpeg(tf.io.read_file(path), channels=3)
    return tf.image.resize(image, (SIDE, SIDE)) / 255.0, label


def augment(image: tf.Tensor, label: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    image = tf.image.random_flip_left_right(image)
    image = tf.image.random_brightness(image, 0.2)
    return tf.image.random_contrast(image, 0.8, 1.2), label


def dataset() -> tf.data.Dataset:
    paths = [str(path) for path in sorted(FOLDER.glob("*.jpg"))]
    files = tf.data.Dataset.from_tensor_slices((paths, [n % CLASSES for n in range(len(paths))]))
    files = files.shuffle(len(paths), seed=0)
    if not FIXED:
        return files.map(load).map(augment).batch(BATCH, drop_remainder=True)
    images = files.map(load, num_parallel_calls=tf.data.AUTOTUNE)
    images = images.map(augment, num_parallel_calls=tf.data.AUTOTUNE)
    return images.batch(BATCH, drop_remainder=True).prefetch(tf.data.AUTOTUNE)


def build() -> keras.Model:
    inputs = keras.Input((SIDE, SIDE, 3))
    values = layers.Conv2D(64, 7, strides=2, padding="same", activation="relu")(inputs)
    for filters in (64, 128, 256, 512):
        for _ in range(2):
            values = layers.Conv2D(filters, 3, padding="same", activation="relu")(values)
        values = layers.MaxPooling2D()(values)
    return keras.Model(inputs, layers.Dense(CLASSES)(layers.GlobalAveragePooling2D()(values)))


if not list(FOLDER.glob("*.jpg")):
    write_images()
model = build()
loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
model.compile("adam", loss, metrics=["accuracy"], jit_compile=False)
model.fit(dataset(), epochs=EPOCHS, verbose=2)
