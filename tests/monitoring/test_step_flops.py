"""A run on a GPU records the operations of its step, and what `keras-gpukit bench` measured."""

from dataclasses import replace

import keras
import msgspec
import numpy as np
import pytest
from helpers.processes import wait_for
from helpers.training import compiled

import keras_gpukit as gpukit
from keras_gpukit.monitoring import session
from keras_gpukit.records import Ceilings, DeviceBenchmark, GPUInfo
from keras_gpukit.saved_runs.log_folder import load_report
from keras_gpukit.sensors.host import results_file

CARD = "NVIDIA H100 PCIe"
BATCH = 8
CEILINGS = Ceilings({"TF32": 300.0}, 1800.0, 20.0)


class Waits(keras.callbacks.Callback):
    """Goes on until the operations are known."""

    def __init__(self, monitor):
        self._session = lambda: monitor._session

    def on_epoch_end(self, epoch, logs=None):
        wait_for(lambda: "flops" in self._session().output.fold.latest)


@pytest.fixture
def pretended_gpu(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    real = session.read_environment
    gpus = (GPUInfo(0, CARD, compute_capability=(9, 0)),)
    monkeypatch.setattr(session, "read_environment", lambda model: replace(real(model), gpus=gpus))


def fit(tmp_path, **options):
    model = compiled(keras.layers.Dense(3), shape=(6,), **options)
    monitor = gpukit.Monitor(tmp_path / "logs", verbose=0)
    inputs, targets = np.zeros((2 * BATCH, 6), "float32"), np.zeros((2 * BATCH, 3), "float32")
    model.fit(inputs, targets, BATCH, verbose=0, callbacks=[monitor, Waits(monitor)])
    return monitor.summary


@pytest.mark.usefixtures("pretended_gpu")
def test_a_run_records_its_flops_and_the_measured_ceilings(tmp_path):
    path = results_file(CARD)
    path.parent.mkdir(parents=True)
    measured = DeviceBenchmark("GPU", 8, "2026-01-01T00:00:00+00:00", CARD, ceilings=CEILINGS)
    path.write_bytes(msgspec.json.encode(measured))
    summary = fit(tmp_path, steps_per_execution=2)
    found = summary.flops
    assert summary.overhead_s >= 0
    assert found.by_dtype == {"float32": 2 * (2 * BATCH * 6 * 3)}
    assert found.ceilings == CEILINGS
    (run,) = load_report(tmp_path / "logs").runs
    assert run.summary.flops == found


@pytest.mark.usefixtures("pretended_gpu")
def test_eager_steps_and_a_step_function_of_ones_own_have_a_reason(tmp_path, monkeypatch):
    found = fit(tmp_path, run_eagerly=True).flops
    assert (found.total, found.ceilings) == (None, None)
    assert found.unknown_because == "eager steps have no graph"

    def make(self, force=False):
        self.train_function = lambda iterator: {"loss": next(iterator)[0][0, 0]}
        return self.train_function

    monkeypatch.setattr(keras.Sequential, "make_train_function", make)
    assert "counting them failed" in fit(tmp_path).flops.unknown_because
