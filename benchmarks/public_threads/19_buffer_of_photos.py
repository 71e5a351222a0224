# Source: GitHub, tensorflow/tensor2tensor #1210 "Shuffle buffer causes OOM on CPU", tensorflow/tensorflow #32376, and
#   keras-team/keras #19502 (image_dataset_from_directory shuffled decoded photos; solved by shuffling the file names).
# The user saw: the script dies before the first step of the first epoch ("Filling up shuffle buffer" is the last thing
#   that appears) with ResourceExhaustedError, and does so with batch_size=1 and with the smallest network.
# True cause: shuffle(1024) stands after the photos are decoded to floats and would hold all 720 of 256 x 256 x 3: 566 MB,
#   the device has 512 MiB (537 MB). The network needs a few MB.
# First line of a good tool: out of memory in the input, before step 1: shuffle(1024) (line) wants to hold all 720 decoded
#   photos, 0.8 MB each: shuffle the names before load, or a smaller buffer.
# Must not say: a smaller batch, the network, mixed precision, rematerialization, gradient accumulation; prefetch; a leak.
# FIXED=1: shuffle before load. Kind: failure, memory of the input.
import os

os.environ.update(TF_CPU_ALLOCATOR_USE_BFC="true", TF_CPU_BFC_MEM_LIMIT_IN_MB="512", TF_ENABLE_ONEDNN_OPTS="0")
import pathlib, sys, tempfile, time

import keras
import numpy as np
import tensorflow as tf
from PIL import Image

FIXED = os.environ.get("FIXED") == "1"
keras.utils.set_random_seed(1)

folder = pathlib.Path(tempfile.mkdtemp())
rng = np.random.default_rng(0)
for number in range(60):
    blotches = Image.fromarray(rng.integers(0, 255, (8, 8, 3), dtype=np.uint8))
    blotches.resize((256, 256), Image.BILINEAR).save(folder / f"{number:03}.jpg", quality=90)
paths = [str(path) for path in sorted(folder.glob("*.jpg"))] * 12
labels = [number % 4 for number in range(len(paths))]


def load(path, label):
    photo = tf.io.decode_jpeg(tf.io.read_file(path), channels=3)
    photo.set_shape((256, 256, 3))
    return tf.cast(photo, tf.float32) / 255.0, label


ds = tf.data.Dataset.from_tensor_slices((paths, labels))
if FIXED:
    ds = ds.shuffle(1024, seed=2).map(load, num_parallel_calls=2)
else:
    ds = ds.map(load, num_parallel_calls=2).shuffle(1024, seed=2)
ds = ds.batch(8).prefetch(1)

model = keras.Sequential([
    keras.Input((256, 256, 3)),
    keras.layers.Conv2D(4, 5, strides=4, activation="relu"),
    keras.layers.Conv2D(8, 3, strides=2, activation="relu"),
    keras.layers.GlobalAveragePooling2D(),
    keras.layers.Dense(4, activation="softmax"),
])
model.compile("adam", "sparse_categorical_crossentropy")
losses = []
keep = keras.callbacks.LambdaCallback(on_epoch_end=lambda epoch, logs: losses.append(logs["loss"]))
began = time.time()
try:
    model.fit(ds, epochs=2, verbose=2, callbacks=[keep])
finally:
    print("LOSSES", losses)
    print("FIT_S", round(time.time() - began, 2), file=sys.stderr)
