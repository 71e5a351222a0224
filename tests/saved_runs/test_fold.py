"""One fold: a run's summary is the same from its records as they came, and from its file."""

import dataclasses
import os
import sys
import time

import keras
import numpy as np
import pytest
import tensorflow as tf
from helpers.fake_nvml import GIB, FakeGPU, FakeNVML
from helpers.recorded_runs import without_lines
from helpers.training import SlowPyDataset, fast_dataset, small_model

from keras_gpukit import Monitor
from keras_gpukit.records import GPUInfo
from keras_gpukit.rules.rule import MINIMUM_SAMPLES
from keras_gpukit.saved_runs.log_folder import load_report

pytestmark = pytest.mark.tensorflow


def validated(monitor):
    data = fast_dataset(30)
    small_model().fit(data, epochs=2, validation_data=data, verbose=0, callbacks=[monitor])


def several_steps(monitor):
    model = small_model(steps_per_execution=4)
    model.fit(fast_dataset(40), epochs=2, verbose=0, callbacks=[monitor])


def py_dataset(monitor):
    small_model().fit(SlowPyDataset(12, 0.002), epochs=3, verbose=0, callbacks=[monitor])


def evaluated(monitor):
    small_model().evaluate(fast_dataset(30), verbose=0, callbacks=[monitor])


def on_gpus(monitor, monkeypatch):
    """Two GPUs stand in for real ones: one is hot, another process holds memory of the other.

    Later batches come late, for about three seconds.
    """
    gpus = [
        FakeGPU("GPU-a", throttle_mask=0x40),
        FakeGPU("GPU-b", processes={os.getpid(): GIB, 1: 30 * GIB}),
    ]
    monkeypatch.setitem(sys.modules, "pynvml", FakeNVML(gpus))
    listed = tuple(GPUInfo(index, gpu.name, gpu.uuid) for index, gpu in enumerate(gpus))
    monkeypatch.setattr("keras_gpukit.monitoring.environment.visible_gpus", lambda: listed)

    def batches():
        for batch in range(300):
            time.sleep(0.001 if batch < 200 else 0.02)
            yield np.zeros((2, 8), "float32"), np.zeros((2, 1), "float32")

    signature = tuple(tf.TensorSpec((2, width)) for width in (8, 1))
    data = tf.data.Dataset.from_generator(batches, output_signature=signature)
    small_model().fit(data, verbose=0, callbacks=[monitor])


def failing(monitor):
    class Fails(keras.callbacks.Callback):
        def on_epoch_end(self, epoch, logs=None):
            raise RuntimeError("theirs")

    with pytest.raises(RuntimeError):
        small_model().fit(fast_dataset(20), epochs=2, verbose=0, callbacks=[monitor, Fails()])


@pytest.mark.parametrize("run", [validated, several_steps, py_dataset, evaluated, failing])
def test_a_summary_from_the_file_is_the_live_one(tmp_path, run):
    monitor = Monitor(tmp_path, verbose=0)
    run(monitor)
    read = assert_is_the_live_one(tmp_path, monitor.summary)
    if run is validated:
        measured = monitor.summary.throughput.measured_steps
        weights = {series.tag: sum(series.weight) for series in read.summary.series}
        assert weights["step/time_ms"] == measured
        assert {"input/wait_ms", "host/cpu_percent", "host/memory_bytes"} < weights.keys()
        steps = read.steps.figures
        assert 0 < steps["between_s"].overall < steps["step_time_s"].overall
        assert sum(steps["step_time_s"].weight) == measured
        # The first epoch traces, which takes longer than an event must.
        assert {event.kind for event in read.events} >= {"first step", "epoch"}
        assert read.events[-1].ended_s <= read.ended_s


def assert_is_the_live_one(log_dir, live):
    (whole,) = load_report(log_dir).runs
    assert (whole.name, whole.notes, whole.summary) == (log_dir.name, (), live)
    without_lines(log_dir, "summary")
    (seen,) = load_report(log_dir).runs
    for field in dataclasses.fields(live):
        # The others tell what is known of a run without a summary alone.
        if field.name not in ("host_at_end", "killed_in", "verdict"):
            assert getattr(seen.summary, field.name) == getattr(live, field.name), field.name
    return whole


def test_a_run_that_was_killed_gets_the_verdicts_that_its_records_allow(tmp_path, monkeypatch):
    monkeypatch.setattr("keras_gpukit.monitoring.sampling.SAMPLE_EVERY_S", 0.2)
    monitor = Monitor(tmp_path, verbose=0)
    on_gpus(monitor, monkeypatch)
    live = monitor.summary
    assert_is_the_live_one(tmp_path, live)
    codes = {each.code for each in live.findings}
    assert codes >= {"throttled", "other-processes-on-gpu", "input-bound"}
    monkeypatch.setattr("keras_gpukit.saved_runs.run_lines.has_ended", lambda process: True)
    path = tmp_path / "gpukit" / "run.jsonl"
    data = path.read_bytes()
    for share in (0.99, 0.8, 0.6, 0.4, 0.2):
        cut = data[: int(share * len(data))]  # within a line
        path.write_bytes(cut)
        (seen,) = load_report(tmp_path).runs
        found = {each.code for each in seen.summary.findings}
        assert "killed" in found
        # A run that ended before its first step gets no advice on speed.
        if seen.summary.steps and seen.summary.utilization.samples >= MINIMUM_SAMPLES:
            assert found >= {"throttled", "other-processes-on-gpu"}
        if b'"kind":"end"' in cut:
            assert found - {"killed"} == codes
    assert seen.summary.environment == live.environment
