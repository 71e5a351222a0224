"""Short trials and profiles of real pipelines, a lock that is held, and an interrupt."""

from __future__ import annotations

import _thread
import threading
import time

import pytest
from helpers.training import (
    BATCH,
    fast_dataset,
    sensitive_model,
    sleeping_model,
    slow_dataset,
    small_model,
    without_autotuning,
)
from helpers.xprof_figures import ask_xprof
from profiling.test_automatic_captures import captured, on_a_gpu  # noqa: F401

import keras_gpukit as gpukit
from keras_gpukit.profiling import read_profile
from keras_gpukit.rules.input import contention as contention_rules
from keras_gpukit.sensors.interpreter import ContentionSensor
from keras_gpukit.tuning import diagnose as diagnosing
from keras_gpukit.tuning.diagnose import diagnose
from keras_gpukit.tuning.measured_rates import own_cpu_s

pytestmark = pytest.mark.usefixtures("undisturbed")


def test_a_slow_pipeline_is_told_by_its_ceiling():
    """A batch sleeps for 60 ms, alone or in training, and a step without input for 8 ms.

    No faster than it sleeps but for what is in buffers; half as fast if each came 60 ms late.
    """
    diagnosis = diagnose(sleeping_model(0.004), slow_dataset(40, 0.06), seconds=3, verbose=False)
    rate = 1 / 0.06
    assert 0.5 * rate <= diagnosis.data_only.median <= 1.25 * rate
    assert 0.5 * rate <= diagnosis.actual.median <= 1.25 * rate
    assert 1.5 * rate <= diagnosis.compute_only.median <= 1.05 / 0.004
    assert 1.5 <= diagnosis.ceiling_gain <= 1.05 / (0.004 * diagnosis.actual.median)
    assert diagnosis.examples_per_batch == BATCH


def test_nothing_prepared_ahead_is_recognized(monkeypatch):
    """Batches and steps sleep for 80 ms each, in turn: training is half as fast as either.

    So long that a thread which wakes late makes no difference. What others do on this machine's
    cores, and how late threads wake then, is no part of this.
    """
    monkeypatch.setattr(diagnosing, "busy_cpu_s", own_cpu_s)
    monkeypatch.setattr(contention_rules, "GIL_WAIT_S", 1.0)
    dataset = without_autotuning(slow_dataset(40, 0.08))
    contention = diagnose(sleeping_model(0.04), dataset, seconds=5, verbose=False).contention
    assert contention.cause == "nothing ahead"
    assert 0.15 <= contention.shortfall.median <= 0.6


def test_a_thread_that_keeps_the_lock_is_noticed():
    """Python lets go of its lock each 5 ms: one that wakes waits for up to that, and for no core.

    The median of a second's naps is of those in which the other thread had a core.
    """
    stop = threading.Event()

    def burn():
        while not stop.is_set():
            sum(range(1000))

    thread, sensor = threading.Thread(target=burn), ContentionSensor()
    thread.start()
    try:
        for _ in range(40):
            time.sleep(0.01)
            sensor.take_naps()
    finally:
        stop.set()
        thread.join()
    assert 0.001 <= sensor.contention_record().gil_wait_s <= 0.02


def test_an_interrupt_ends_a_trial_and_leaves_the_model_untouched():
    """It comes within the hundred seconds of the trial, and ends it long before they are over.

    Now and then Python raises it in a finalizer, where it is lost; the second comes so late that
    one which was not lost has ended the trial, however busy the machine is.
    """
    model = sensitive_model()
    weights, ended = model.get_weights(), threading.Event()

    def interrupt():
        for wait_s in (2.0, 60.0):
            if ended.wait(wait_s):
                return
            _thread.interrupt_main()

    interrupting, began_s = threading.Thread(target=interrupt), time.monotonic()
    interrupting.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            diagnose(model, fast_dataset(4), seconds=200, verbose=False)
    finally:
        ended.set()
        interrupting.join()
    assert 2.0 <= time.monotonic() - began_s <= 150.0
    assert all(map(lambda a, b: a.tobytes() == b.tobytes(), weights, model.get_weights()))


@pytest.mark.parametrize("steps_per_execution", [1, pytest.param(4, marks=pytest.mark.long)])
def test_a_capture_shows_the_stall_that_was_measured_of_the_same_steps(
    tmp_path, steps_per_execution
):
    """Batches of 0.1 s for each of the same ten executions, which else take milliseconds.

    A thread that gets its core 10 ms late lets the two differ by a tenth of that.
    """
    monitor = gpukit.Monitor(tmp_path, verbose=0)
    model = small_model(steps_per_execution=steps_per_execution)
    data = slow_dataset(40 * steps_per_execution, 0.1 / steps_per_execution)
    model.fit(data, verbose=0, callbacks=[monitor])
    [record] = captured(monitor)
    assert 0.5 <= record.stall_fraction <= 1
    most = record.live_most_stall_fraction or record.live_stall_fraction
    assert record.live_stall_fraction - 0.15 <= record.stall_fraction <= most + 0.15


def test_a_profile_shows_how_long_steps_waited_and_xprof_agrees(tmp_path):
    """A batch comes each 160 ms, of which a step sleeps for 20: the other 140 are a wait.

    Steps that take 60 ms longer would wait for half of their time. Both read the same profile.
    """
    profiler = gpukit.Profiler(tmp_path, at_steps=(8,), steps=10)
    model, data = sleeping_model(0.01), slow_dataset(20, 0.16)
    model.fit(data, callbacks=[profiler], verbose=0)
    path = tmp_path / profiler.summary.captures[0].path
    ours, theirs = read_profile(path), ask_xprof(path)
    assert 0.4 <= ours.stall_fraction <= 0.95
    assert 0.14 <= ours.step_time_s <= 0.24
    assert theirs["input_fraction"] == pytest.approx(ours.stall_fraction, abs=0.1)
    assert ours.stages[0].kind == "Sleep"
