"""A worker of two that trains on files of different size, then of equal size, and with one batch.

    python planted_shards.py FOLDER

Writes the record of each fit to `<name><index>.json` in the folder.
"""

import json
import os
import sys
import time
from pathlib import Path

import keras
import tensorflow as tf

import keras_gpukit as gpukit
from keras_gpukit.records import to_dict

GLOBAL_BATCH, STEP_S = 32, 0.03
ROWS = {"uneven": (960, 320), "even": (640, 640)}
"""Examples in the first and in the second file."""

folder = Path(sys.argv[1])
index = json.loads(os.environ["TF_CONFIG"])["task"]["index"]
setup = gpukit.configure_gpus(strategy="multi_worker", seed=0, verbose=False)


@keras.saving.register_keras_serializable()
class Work(keras.layers.Layer):
    def call(self, inputs):
        def sleep(value):
            time.sleep(STEP_S if value.shape[0] else 0.0)
            return value

        slept = tf.ensure_shape(tf.numpy_function(sleep, [inputs], tf.float32), inputs.shape)
        return inputs + 0.0 * tf.stop_gradient(slept)


def fit(name: str) -> None:
    """Trains an epoch of two files, which TensorFlow shares out among the workers by file."""
    files = [folder / f"{name}-{index}-of-{number}.csv" for number in range(2)]
    for file, rows in zip(files, ROWS[name], strict=True):
        file.write_text("1.0,2.0\n" * rows)

    def parsed(line):
        values = tf.strings.to_number(tf.strings.split(line, ","))
        return tf.ensure_shape(values, (2,)), values[:1]

    data = tf.data.Dataset.from_tensor_slices([str(file) for file in files])
    data = data.interleave(tf.data.TextLineDataset, cycle_length=1).map(parsed).batch(GLOBAL_BATCH)
    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.FILE
    with setup.scope():
        model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1), Work()])
        model.compile("sgd", "mse", jit_compile=False)
    monitor = gpukit.Monitor(folder / name, verbose=0)
    model.fit(data.with_options(options), verbose=0, callbacks=[monitor])
    (folder / f"{name}{index}.json").write_text(json.dumps(to_dict(monitor.summary)))


for name in ROWS:
    fit(name)
