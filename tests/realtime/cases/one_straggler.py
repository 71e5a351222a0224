"""A worker that trains three times: unwatched, watched, and watched into a folder of its own.

    python one_straggler.py FOLDER

The second worker takes longer for each step. Writes `results<index>.json` to the folder.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import time
from pathlib import Path

import keras
import tensorflow as tf

import keras_gpukit as gpukit

STEPS = 30
folder = Path(sys.argv[1])
index = json.loads(os.environ["TF_CONFIG"])["task"]["index"]
setup = gpukit.configure_gpus(strategy="multi_worker")


@keras.saving.register_keras_serializable()
class Work(keras.layers.Layer):
    def call(self, inputs):
        def sleep(value):
            time.sleep(0.08 if index == 1 else 0.02)
            return value

        slept = tf.ensure_shape(tf.numpy_function(sleep, [inputs], tf.float32), inputs.shape)
        return inputs + 0.0 * tf.stop_gradient(slept)


def fit(*callbacks):
    """Trains the same model on the same data, and returns a hash of what it learnt."""
    keras.utils.set_random_seed(7)
    with setup.scope():
        model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(8), Work()])
        model.compile("sgd", "mse", jit_compile=False)
    rows = tf.random.stateless_uniform((12 * STEPS, 8), (1, 2))
    data = tf.data.Dataset.from_tensor_slices((rows, rows[:, ::-1])).batch(12)
    history = model.fit(data, callbacks=list(callbacks), verbose=0)
    learnt = b"".join(weight.tobytes() for weight in model.get_weights())
    return hashlib.sha256(learnt).hexdigest(), history.history["loss"]


monitor = gpukit.Monitor(folder / "logs", verbose=0)
alone = gpukit.Monitor(folder / f"logs-{index}", verbose=0)
unwatched, watched = fit(), fit(monitor)
fit(alone)
figures = next(each for each in monitor.summary.workers.members if each.index == index)
result = {
    "unwatched": unwatched,
    "watched": watched,
    "findings": [each.title for each in monitor.summary.findings],
    "not_judged": alone.summary.verdict.not_applicable["straggler"],
    "compared": len(figures.compared),
    "round_trips": [each.peer for each in figures.round_trips],
    "examples": figures.examples,
}
(folder / f"results{index}.json").write_text(json.dumps(result))
