"""A validation set is taken off the end of one dataset with skip(), after the photos are decoded.

As in tensorflow/tensorflow#44008. Each validation decodes 600 photos to use 120.

Finding: long-validation
Names: [Vv]alidation; load; skip
"""

import pathlib
import sys
import tempfile
import time

import keras
import numpy as np
import tensorflow as tf
from PIL import Image

FIXED = "--fix" in sys.argv
keras.utils.set_random_seed(1)

folder = pathlib.Path(tempfile.mkdtemp())
rng = np.random.default_rng(0)
for number in range(100):
    blotches = Image.fromarray(rng.integers(0, 255, (20, 26, 3), dtype=np.uint8))
    blotches.resize((1400, 1050), Image.BILINEAR).save(folder / f"{number:03}.jpg", quality=90)
paths = [str(path) for path in sorted(folder.glob("*.jpg"))] * 6
labels = [number % 4 for number in range(len(paths))]


def load(path, label):
    photo = tf.io.decode_jpeg(tf.io.read_file(path), channels=3)
    return tf.image.resize(photo, (96, 96)) / 255.0, label


TRAIN = 480
if FIXED:
    first = tf.data.Dataset.from_tensor_slices((paths[:TRAIN], labels[:TRAIN]))
    last = tf.data.Dataset.from_tensor_slices((paths[TRAIN:], labels[TRAIN:]))
    train, valid = (each.map(load, num_parallel_calls=tf.data.AUTOTUNE) for each in (first, last))
else:
    photos = tf.data.Dataset.from_tensor_slices((paths, labels)).map(
        load, num_parallel_calls=tf.data.AUTOTUNE
    )
    train, valid = photos.take(TRAIN), photos.skip(TRAIN)
train = train.cache().shuffle(TRAIN, seed=2).batch(32).prefetch(tf.data.AUTOTUNE)
valid = valid.batch(32).prefetch(tf.data.AUTOTUNE)

model = keras.Sequential(
    [
        keras.Input((96, 96, 3)),
        keras.layers.Conv2D(8, 3, strides=2, activation="relu"),
        keras.layers.Conv2D(16, 3, strides=2, activation="relu"),
        keras.layers.GlobalAveragePooling2D(),
        keras.layers.Dense(4, activation="softmax"),
    ]
)
model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
began = time.time()
history = model.fit(train, validation_data=valid, epochs=20, verbose=2)
print("FIT_S", round(time.time() - began, 2), file=sys.stderr)
print("LOSSES", history.history["loss"])
