"""Profiles that `Monitor` takes by itself. No GPU here: the CPU is said to be one."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import threading
import weakref
from contextlib import suppress
from dataclasses import replace
from types import SimpleNamespace

import keras
import numpy as np
import pytest
import tensorflow as tf
from helpers.training import FEATURES, sensitive_model, slow_dataset, small_model

import keras_gpukit as gpukit
from keras_gpukit.errors import ProfileError
from keras_gpukit.input.wait.meters import WaitReading
from keras_gpukit.input.wait.pipeline_model import PipelineModelMeter
from keras_gpukit.monitoring import automatic_capture
from keras_gpukit.profiling import read, read_profile
from keras_gpukit.records import Worker
from keras_gpukit.reports.console import print_summary

pytestmark = pytest.mark.usefixtures("undisturbed")
BATCHES = 150  # a second and more


@pytest.fixture(autouse=True)
def on_a_gpu(monkeypatch):
    """A run on a GPU; each second, and the twenty of a run before its capture, pass sooner.

    Reading a profile may take as long as it does on a busy machine.
    """
    monkeypatch.setattr(automatic_capture, "READ_WITHIN_S", 300.0)
    monkeypatch.setattr(read, "READ_WITHIN_S", 300.0)
    monkeypatch.setattr(automatic_capture, "runs_on_gpu", lambda session: True)
    sooner = {"AFTER_S": 0.3, "STEADY_INTERVAL_S": 0.05, "STEADY_WITHIN": 10.0, "SLOWER": 1000.0}
    for name, value in sooner.items():
        monkeypatch.setattr(f"keras_gpukit.rules.whole_run.capture_triggers.{name}", value)
    monkeypatch.setattr("keras_gpukit.monitoring.sampling.SAMPLE_EVERY_S", 0.05)
    monkeypatch.setattr("keras_gpukit.input.wait.step_windows.WINDOW_S", 0.02)


def fitted(log_dir, *others, batches=BATCHES, model=None, **options) -> gpukit.Monitor:
    monitor = gpukit.Monitor(log_dir, verbose=0, **options)
    (model or small_model()).fit(
        slow_dataset(batches, 0.008), callbacks=[monitor, *others], verbose=0
    )
    return monitor


def captured(monitor: gpukit.Monitor) -> list:
    return [each for each in monitor.summary.captures.captures if each.trigger == "steady"]


def is_recording() -> bool:
    return any(each.name == "gpukit-capture" for each in threading.enumerate())


class WhileRecording(keras.callbacks.Callback):
    """Does something once, before a batch that is captured."""

    def __init__(self, action):
        super().__init__()
        self.action = action
        self.done = False

    def on_train_batch_begin(self, batch, logs=None):
        if not self.done and is_recording():
            self.done = True
            self.action()


# When


@pytest.mark.parametrize("steps_per_execution", [1, 4])
def test_a_run_that_is_long_enough_is_captured_once(tmp_path, steps_per_execution):
    model = small_model(steps_per_execution=steps_per_execution)
    monitor = fitted(tmp_path, batches=2 * BATCHES, model=model)
    [record] = captured(monitor)
    assert record.reason.startswith("steady steps of ")
    assert record.steps == 10 * steps_per_execution
    assert record.unread_because is None
    profile = monitor.summary.profile
    assert profile.steps == 8 * steps_per_execution
    assert record.stall_fraction == profile.stall_fraction
    assert monitor.summary.captures.none_automatic_because is None


def test_without_a_gpu_a_run_that_computes_is_captured_and_read_at_its_end(tmp_path, monkeypatch):
    monkeypatch.undo()
    sooner = {"CPU_SOONEST_S": 0, "INTERVAL_S": 0.02, "CPU_STEADY_WITHIN": 100}
    for name, value in {**sooner, "COST_FRACTION": 1.0, "MOST_COMPUTES": 0.0}.items():
        monkeypatch.setattr(f"keras_gpukit.rules.whole_run.capture_triggers.{name}", value)
    monkeypatch.setattr("keras_gpukit.input.wait.step_windows.WINDOW_S", 0.02)
    monitor = fitted(tmp_path, model=small_model(metrics=["mae"]))
    [record] = captured(monitor)
    assert 1 <= record.steps <= 10
    assert record.unread_because is None
    roles = {each.path: each.role for each in monitor.summary.profile.layers}
    assert roles["mean_absolute_error"] == "metrics"
    layers = [each for each in monitor.summary.profile.layers if each.class_name == "Dense"]
    assert layers[0].weight_shape is not None


def test_without_a_gpu_eager_steps_are_captured_early_and_nothing_is_corrected(
    tmp_path, monkeypatch
):
    monkeypatch.undo()
    monkeypatch.setattr("keras_gpukit.rules.whole_run.capture_triggers.SUSPECTED_AFTER_S", 0.3)
    monkeypatch.setattr("keras_gpukit.input.wait.step_windows.WINDOW_S", 0.02)
    monitor = fitted(tmp_path, batches=60, model=small_model(run_eagerly=True))
    [record] = captured(monitor)
    assert record.unread_because is None
    assert record.live_stall_fraction is None
    assert monitor.summary.profile.parts_s["idle"] > 0


def test_without_a_gpu_a_large_table_is_captured_early(tmp_path, monkeypatch):
    monkeypatch.undo()
    monkeypatch.setattr("keras_gpukit.rules.whole_run.capture_triggers.SUSPECTED_AFTER_S", 0.3)
    monkeypatch.setattr("keras_gpukit.input.wait.step_windows.WINDOW_S", 0.02)
    table = keras.layers.Embedding(2**20, 4)
    head = keras.layers.Flatten(), keras.layers.Dense(1)
    model = keras.Sequential([keras.Input((FEATURES,)), table, *head])
    model.compile("sgd", "mse", jit_compile=False)
    [record] = captured(fitted(tmp_path, batches=60, model=model))
    assert record.unread_because is None


@pytest.mark.parametrize("other", ["Profiler", "TensorBoard"])
def test_next_to_another_profiler_nothing_is_captured(tmp_path, other):
    callback = {
        "Profiler": lambda: gpukit.Profiler(tmp_path / "other", at_steps=(1000,)),
        "TensorBoard": lambda: keras.callbacks.TensorBoard(tmp_path / "other", profile_batch=5),
    }[other]()
    monitor = fitted(tmp_path / "ours", callback)
    assert captured(monitor) == []
    assert f"{other} captures profiles" in monitor.summary.captures.none_automatic_because


@pytest.mark.parametrize(
    ("worker", "steps_per_execution", "injected", "because"),
    [
        (None, 1, None, None),
        (None, 16, None, None),
        (Worker("worker", 0, 2), 1, None, "may crash a worker"),
        (None, 17, None, "17 steps would be large"),
        (None, 1, "libToolsInjection64.so", "another profiler is at work"),
    ],
)
def test_where_it_may_do_harm_nothing_is_captured(
    monkeypatch, worker, steps_per_execution, injected, because
):
    if injected:
        monkeypatch.setenv("CUDA_INJECTION64_PATH", injected)
    session = SimpleNamespace(
        environment=SimpleNamespace(worker=worker),
        model=SimpleNamespace(steps_per_execution=steps_per_execution),
    )
    found = automatic_capture.not_automatic_because(session, ())
    assert found is None if because is None else because in found


# No harm


def test_training_is_the_same_with_and_without(tmp_path):
    def trained(**options):
        model = sensitive_model()
        monitor = gpukit.Monitor(tmp_path, verbose=0, **options)
        data = slow_dataset(BATCHES, 0.004)
        history = model.fit(data, epochs=2, callbacks=[monitor], verbose=0)
        return monitor, history.history["loss"], model.get_weights()

    (one, losses, weights), (none, losses_without, weights_without) = (
        trained(),
        trained(capture=False),
    )
    assert (len(captured(one)), len(captured(none)), none.summary.profile) == (1, 0, None)
    assert losses == losses_without
    assert all(map(np.array_equal, weights, weights_without))
    with pytest.raises(ValueError, match="Received: capture=True"):
        gpukit.Monitor(tmp_path, capture=True)


def test_an_interrupted_capture_leaves_no_profiler_running(tmp_path):
    def fail():
        raise KeyboardInterrupt

    monitor, interrupted = gpukit.Monitor(tmp_path, verbose=0), WhileRecording(fail)
    with pytest.raises(KeyboardInterrupt):
        small_model().fit(slow_dataset(BATCHES, 0.008), callbacks=[monitor, interrupted], verbose=0)
    [record] = captured(monitor)
    assert "interrupted" in record.ended_early_because
    tf.profiler.experimental.start(str(tmp_path / "theirs"))
    tf.profiler.experimental.stop()


def test_a_profiler_that_is_at_work_already_is_left_alone(tmp_path, caplog):
    tf.profiler.experimental.start(str(tmp_path / "theirs"))
    try:
        monitor = fitted(tmp_path / "ours")
    finally:
        tf.profiler.experimental.stop()
    [missed] = monitor.summary.captures.missed
    assert "another profiler is recording" in missed.because
    assert caplog.records == []  # the user asked for no capture


@pytest.mark.parametrize("fails", ["start", "stop", "reading"])
def test_a_capture_that_fails_leaves_only_a_reason(tmp_path, monkeypatch, caplog, fails):
    def fail(*args):
        with suppress(tf.errors.UnavailableError):
            stop()
        raise RuntimeError("the profiler broke")

    stop = tf.profiler.experimental.stop
    if fails == "start":
        monkeypatch.setattr("keras_gpukit.profiling.capture.start_function", fail)
    elif fails == "stop":
        monkeypatch.setattr(tf.profiler.experimental, "stop", fail)
    else:
        monkeypatch.setattr(automatic_capture, "read_apart", fail)
    summary = fitted(tmp_path).summary
    captures = summary.captures
    records = {
        "start": [each.because for each in captures.missed],
        "stop": [each.failed_because for each in captures.captures],
        "reading": [each.unread_because for each in captures.captures],
    }
    assert "the profiler broke" in records[fails][0]
    if fails == "reading":
        [record] = captures.captures
        assert (tmp_path / record.path).stat().st_size == record.profile_bytes
    assert summary.profile is None
    assert summary.input.live_stall_fraction is None
    assert summary.steps == BATCHES
    assert caplog.records == []


# Reading it


def test_the_profile_is_read_on_another_thread_in_another_process(tmp_path, monkeypatch):
    threads, processes = [], []
    reads_apart, run = automatic_capture.read_apart, subprocess.run

    def noted(path):
        threads.append(threading.current_thread())
        return reads_apart(path)

    def ran(command, **options):
        processes.append(command[0])
        return run(command, **options)

    monkeypatch.setattr(automatic_capture, "read_apart", noted)
    monkeypatch.setattr(read.subprocess, "run", ran)
    # A TensorBoard that captures nothing is not in the way.
    monitor = fitted(tmp_path, keras.callbacks.TensorBoard(tmp_path / "other"))
    [record] = captured(monitor)
    assert threads[0] is not threading.main_thread()
    assert processes == [sys.executable]
    contents = read_profile(tmp_path / record.path)  # without what the model says of its layers
    assert replace(monitor.summary.profile, layers=()) == replace(contents, layers=())
    freed = weakref.ref(monitor)
    del monitor
    assert freed() is None  # nothing looks for cycles in these tests


def test_what_is_no_profile_or_too_large_or_takes_too_long_is_refused(tmp_path, monkeypatch):
    path = tmp_path / "a.xplane.pb"
    path.write_text("nothing")
    with pytest.raises(ProfileError, match=r"it cannot be read: .*not a profile"):
        read.read_apart(path)
    monkeypatch.setattr(read, "READ_WITHIN_S", 0.001)
    with pytest.raises(ProfileError, match="within"):
        read.read_apart(path)
    monkeypatch.setattr(read, "LARGEST_APART_BYTES", 6)
    with pytest.raises(ProfileError, match="a run reads up to"):
        read.read_apart(path)


# What it is for


def test_a_wrong_live_stall_is_replaced_and_everything_says_so(tmp_path, monkeypatch, capsys):
    def planted(self, taken, interval):
        return WaitReading(0.9 * float(interval.durations_s.sum()))

    monkeypatch.setattr(PipelineModelMeter, "wait_of", planted)
    model = keras.Sequential([keras.Input((8,)), *[keras.layers.Dense(600) for _ in range(3)]])
    model.compile("sgd", "mse", jit_compile=False)
    monitor = gpukit.Monitor(tmp_path, verbose=0)
    # One epoch: were another to begin within the ten captured steps, seven would count.
    model.fit(slow_dataset(2 * BATCHES, 0.0).prefetch(2), callbacks=[monitor], verbose=0)
    summary = monitor.summary
    [record] = captured(monitor)
    assert record.live_stall_fraction == pytest.approx(0.9)
    assert record.stall_fraction < record.live_stall_fraction
    assert summary.input.live_stall_fraction == pytest.approx(0.9)
    assert summary.input.stall_fraction == pytest.approx(record.stall_fraction)
    print_summary(summary)
    panel = " ".join(capsys.readouterr().out.replace("│", " ").split())
    message = (
        f"The input stall is corrected by the profile of step {record.first_step:,}, which shows"
    )
    assert panel.count(message) == 1
    report = tmp_path / "report.html"
    command = [sys.executable, "-m", "keras_gpukit", "report", str(tmp_path), "--out", str(report)]
    subprocess.run(command, check=True, capture_output=True)
    assert f'<p class="remark">{message}' in report.read_text()
    assert re.search(f"<figcaption.*steps waited .* of their time.*{message}", report.read_text())
    lines = (tmp_path / "gpukit" / "run.jsonl").read_text().splitlines()
    kept = json.loads(lines[-1])["record"]
    assert kept["input"]["stall_fraction"] == summary.input.stall_fraction
    assert kept["profile"]["steps"] == 8
