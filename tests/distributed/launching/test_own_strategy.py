"""The strategy that a script makes itself, as in TensorFlow's tutorial, under `launch`."""

from __future__ import annotations

import json

import pytest
from helpers.launches import Launch

MAKES_IT = """
import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
scope = strategy.scope()
"""
FIT = """
import keras
import numpy as np
import tensorflow as tf

keras.utils.set_random_seed(1)
data = np.random.default_rng(0)
x, y = data.normal(size=(256, 4)).astype("float32"), data.integers(0, 3, 256)
batches = tf.data.Dataset.from_tensor_slices((x, y)).repeat().batch(32)
with scope:
    layers = keras.Input((4,)), keras.layers.Dense(8, "relu"), keras.layers.Dense(3, "softmax")
    model = keras.Sequential(layers)
    model.compile("sgd", "sparse_categorical_crossentropy", metrics=["accuracy"])
fit = model.fit(batches, epochs=2, steps_per_epoch=10, verbose=0)
print(json.dumps(fit.history))
"""


@pytest.fixture
def alone(run_script):
    head = "import contextlib, json\nscope = contextlib.nullcontext()\n"
    return json.loads(run_script(head + FIT).stdout)


@pytest.mark.tensorflow
@pytest.mark.slow
@pytest.mark.parametrize("options", [(), pytest.param(("--monitor",), marks=pytest.mark.long)])
def test_it_trains_as_one_process(tmp_path, alone, options):
    launch = Launch(tmp_path, MAKES_IT + FIT, "--workers=2", *options)
    done = launch.run(timeout_s=240)
    assert done.returncode == 0, done.stderr[-3000:]
    assert "PerReplica" not in done.stderr
    histories = [json.loads(line[line.index("{") :]) for line in done.stdout.splitlines()]
    assert len(histories) == 2
    for history in histories:
        assert history == {name: pytest.approx(values, rel=1e-4) for name, values in alone.items()}
    assert ("Report: " in done.stderr) == bool(options)
    assert "workers-train-alone" not in done.stderr


def test_a_job_that_recorded_nothing_names_no_report(tmp_path):
    done = Launch(tmp_path, "raise SystemExit(3)", "--workers=2", "--monitor").run()
    assert done.returncode == 3
    assert "keras-gpukit report" not in done.stderr
