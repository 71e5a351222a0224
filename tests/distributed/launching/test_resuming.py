"""A worker is killed in the middle of an epoch, and training resumes from the last checkpoint."""

from __future__ import annotations

import re

import pytest
from helpers.launches import Launch

SAVED_EVERY = 4
STEPS = 16
EPOCHS = 3
FIT = f"""
import keras
import numpy as np

import keras_gpukit as gpukit

setup = gpukit.configure_gpus(strategy="auto", seed=1, verbose=False)
with setup.scope():
    model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
x = np.random.default_rng(0).normal(size=(32 * {STEPS}, 8)).astype("float32")


def steps_of(model):
    return int(keras.ops.convert_to_numpy(model.optimizer.iterations))


class Killed(keras.callbacks.Callback):
    def on_train_begin(self, logs=None):
        print("starts after step", steps_of(self.model), flush=True)

    def on_epoch_begin(self, epoch, logs=None):
        self.epoch = epoch

    def on_train_batch_end(self, batch, logs=None):
        if index == 1 and (self.epoch, batch) == (1, 9) and not Path("killed").exists():
            Path("killed").touch()
            os.kill(os.getpid(), signal.SIGKILL)


backup = keras.callbacks.BackupAndRestore("backup", save_freq={SAVED_EVERY})
callbacks = [backup, Killed()]
model.fit(x, x.sum(1), batch_size=32, epochs={EPOCHS}, callbacks=callbacks, verbose=0)
weights = " ".join(f"{{value:.6f}}" for value in model.get_weights()[0].ravel())
print("ended in epoch", callbacks[1].epoch, "after step", steps_of(model), "with", weights)
"""


@pytest.mark.tensorflow
@pytest.mark.long
def test_a_killed_worker_costs_no_step_beyond_the_last_checkpoint(tmp_path):
    result = Launch(tmp_path, FIT, "--workers=2", "--restarts=1").run(timeout_s=300)
    assert result.returncode == 0, result.stderr[-3000:]
    assert "keras-gpukit launch: worker 1 was killed by SIGKILL" in result.stderr
    for worker in (0, 1):
        starts = re.findall(rf"\[worker {worker}\] starts after step (\d+)", result.stdout)
        # It was killed after the tenth step of the second epoch.
        assert [int(step) for step in starts] == [0, (STEPS + 10) // SAVED_EVERY * SAVED_EVERY]
    first, second = re.findall(r"\[worker \d\] (ended in epoch .*)", result.stdout)
    assert first == second
    assert first.startswith(f"ended in epoch {EPOCHS - 1} ")
