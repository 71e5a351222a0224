"""Classes are balanced by a filter that drops nine of ten photos after they were decoded.

As in tensorflow/tensorflow#14451.

Finding: input-bound, slow-epoch-start
Names: load; keep|filter; before
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
for number in range(200):
    blotches = Image.fromarray(rng.integers(0, 255, (12, 16, 3), dtype=np.uint8))
    blotches.resize((480, 360), Image.BILINEAR).save(folder / f"{number:03}.jpg", quality=90)
paths = [str(path) for path in sorted(folder.glob("*.jpg"))] * 10
is_defect = (np.arange(len(paths)) % 20 == 0).astype("float32")


def load(path, defect):
    photo = tf.io.decode_jpeg(tf.io.read_file(path), channels=3)
    return tf.image.resize(photo, (64, 64)) / 255.0, defect


def keep(_, defect):
    return tf.logical_or(defect > 0, tf.random.uniform((), seed=5) < 0.055)


ds = tf.data.Dataset.from_tensor_slices((paths, is_defect))
if FIXED:
    ds = ds.filter(keep).map(load, num_parallel_calls=tf.data.AUTOTUNE)
else:
    ds = ds.map(load, num_parallel_calls=tf.data.AUTOTUNE).filter(keep)
ds = ds.shuffle(200, seed=2).batch(32).prefetch(tf.data.AUTOTUNE)

model = keras.Sequential(
    [
        keras.Input((64, 64, 3)),
        keras.layers.Conv2D(8, 3, strides=2, activation="relu"),
        keras.layers.Conv2D(16, 3, strides=2, activation="relu"),
        keras.layers.GlobalAveragePooling2D(),
        keras.layers.Dense(1, activation="sigmoid"),
    ]
)
model.compile("adam", "binary_crossentropy", metrics=["accuracy"])
began = time.time()
history = model.fit(ds, epochs=40, verbose=2)
print("FIT_S", round(time.time() - began, 2), file=sys.stderr)
print("LOSSES", history.history["loss"])
