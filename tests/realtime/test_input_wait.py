"""The input wait of real pipelines, whose truth is how long they sleep."""

from __future__ import annotations

import json
import signal
import time

import psutil
import pytest
import tensorflow as tf
from helpers.prepared import Prepared
from helpers.processes import environment, wait_for
from helpers.training import (
    BATCH,
    SlowPyDataset,
    fast_dataset,
    sleeping_model,
    slow_dataset,
    small_model,
    without_autotuning,
)

import keras_gpukit as gpukit

pytestmark = pytest.mark.usefixtures("undisturbed")


def measured(data, model=None, **options):
    callback = gpukit.InputStall(None)
    (model or small_model()).fit(data, verbose=0, callbacks=[callback], **options)
    return callback


@pytest.mark.parametrize(
    "data",
    [
        lambda: slow_dataset(20, 0.1),
        lambda: SlowPyDataset(20, 0.1),
        lambda: without_autotuning(slow_dataset(20, 0.1)),
    ],
    ids=["dataset", "PyDataset", "autotuning is off"],
)
def test_a_step_waits_for_what_its_batch_sleeps(data):
    """A batch comes each 0.1 s, and a step of a millisecond is over long before the next.

    What computes has a core of its own. Steps that take twenty times as long would make the mean
    wait 0.08 s, and sleeps that end 40 ms late each 0.14 s.
    """
    record = measured(data()).summary
    assert 0.08 <= record.wait_s <= 0.14
    assert 0.7 <= record.stall_fraction <= 1


def test_batches_that_are_ready_do_not_stall():
    """A step sleeps for 40 ms and takes what a cache holds: 8 ms for that would be no wait yet."""
    record = measured(fast_dataset(40), sleeping_model(0.02), epochs=2).summary
    assert 0 <= record.stall_fraction <= 0.2


def test_fetches_of_executions_stall_only_as_far_as_compute_does_not_hide_them():
    """Each of eight steps sleeps for 60 ms: a batch of 20 ms hides behind it, one of 200 does not.

    The first fetch of eight hides behind nothing: 5 % of the time. Then 140 of 200 ms are waits.
    """
    model = sleeping_model(0.03, steps_per_execution=8)
    hidden = measured(slow_dataset(40, 0.02), model).summary
    waited = measured(slow_dataset(40, 0.2), model).summary
    assert {hidden.confidence, waited.confidence} == {"sampled"}
    assert 0 <= hidden.stall_fraction <= 0.25
    assert 0.5 <= waited.stall_fraction <= 0.95


def test_training_and_validation_are_told_apart():
    """Twenty batches of the validations sleep 0.1 s each: two seconds, and a core's delays."""
    data, slow = fast_dataset(24), slow_dataset(10, 0.1)
    found = measured(data, sleeping_model(0.02), epochs=2, validation_data=slow)
    assert 0 <= found.summary.stall_fraction <= 0.2
    assert 0.4 <= found.validation.stall_fraction <= 1
    assert 1.8 <= found.summary.breakdown.validation_s <= 4.0


@pytest.mark.parametrize("modelled", [True, False])
def test_filling_a_shuffle_buffer_starts_an_epoch_and_is_no_stall(modelled):
    """Twenty-one batches of 40 ms must be drawn before the first is there, each 25 ms late at most.

    Later ones come one each 40 ms, for a step that sleeps for 100 ms. Up to four of them are drawn
    before the buffer is looked at.
    """
    data = slow_dataset(26, 0.04).unbatch().shuffle(20 * BATCH).batch(BATCH)
    data = data.apply(tf.data.experimental.assert_cardinality(26))
    data = data if modelled else without_autotuning(data)
    record = measured(data, sleeping_model(0.05), epochs=2).summary
    start = record.pipeline_start
    assert 0.75 <= start.mean_s <= 1.4
    assert record.breakdown.epoch_start_s >= start.mean_s
    assert 0 <= record.wait_s <= 0.03
    assert (start.shuffle_s is not None) == modelled
    if modelled:
        assert 0.78 <= start.shuffle_s / start.mean_s <= 0.96


ON_DEVICES = """
import json
import keras, tensorflow as tf
from helpers.training import fast_dataset, sleeping_model, slow_dataset
import keras_gpukit as gpukit
from keras_gpukit.frameworks import tf_datasets

cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])

def stalls(model, through=lambda data: data):
    found = []
    for data in (fast_dataset(16), slow_dataset(8, 0.25)):
        callback = gpukit.InputStall(None)
        model.fit(through(data), verbose=0, callbacks=[callback])
        found.append(callback.summary.stall_fraction)
    return found

def mirrored():
    with strategy.scope():
        return sleeping_model(0.02)

records = {"replicas": stalls(mirrored())}
tf_datasets.HIDE_MODELS = ("CPU:1",)  # stand in for GPUs, where tf.data's model is not read
to_device = tf.data.experimental.prefetch_to_device("CPU:1")
records["a device"] = stalls(sleeping_model(0.02), lambda data: data.apply(to_device))
print(json.dumps(records))
"""


def test_on_several_devices_and_behind_their_buffers(run_script):
    """A step sleeps for 40 ms, and a batch for none or 250 ms, of which 210 are waited for.

    A step of two replicas that takes 100 ms more would still wait for 40 % of its time.
    """
    records = json.loads(run_script(ON_DEVICES).stdout.splitlines()[-1])
    for ready, starved in records.values():
        assert 0 <= ready <= 0.3
        assert 0.4 <= starved <= 1


def test_two_workers_are_told_apart_from_their_queue():
    """Both threads sleep nearly always; five looks each second see each of them inside."""
    source = measured(SlowPyDataset(80, 0.1, workers=2)).summary.python
    assert source.name == "SlowPyDataset.__getitem__"
    assert "training.py:" in source.location
    assert (source.workers, source.in_processes) == (2, False)
    assert 1.5 <= source.busy_workers <= 2
    assert 0.07 <= source.time_per_batch_s <= 0.15


STOPPED = """
import json, signal, threading, time
import tensorflow as tf
from helpers.training import arrays, small_model
import keras_gpukit as gpukit

def batches_for(seconds):
    # Several windows of about a second, however fast the machine is.
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        yield arrays(1)

def batches():
    yield from batches_for(1.5)
    # The step waits for this batch. Sent to the process, it might stop a moment later.
    signal.pthread_kill(threading.get_ident(), signal.SIGSTOP)
    yield from batches_for(2.5)

(inputs, targets) = arrays(1)
signature = tuple(tf.TensorSpec(each.shape, each.dtype) for each in (inputs, targets))
data = tf.data.Dataset.from_generator(batches, output_signature=signature)
options = tf.data.Options()
options.experimental_optimization.inject_prefetch = False  # or it would be ready before
callback = gpukit.InputStall(None)
small_model().fit(data.with_options(options), verbose=0, callbacks=[callback])
record, model = callback.summary, callback.model
steps = int(model.optimizer.iterations)
print(json.dumps([steps, record.measured_steps, record.wait_s, record.distribution.worst_s]))
"""
STOPPED_S = 3.0


def test_a_process_that_was_stopped_has_not_waited_for_input(tmp_path):
    """Its batches are made within four seconds; three in which it stood still would be one wait."""
    script, output = tmp_path / "script.py", tmp_path / "output"
    script.write_text(STOPPED)
    with output.open("wb") as written:
        process = Prepared(script, env=environment(), stdout=written.fileno(), stderr=2)
    try:
        stopped = psutil.Process(process.pid)
        wait_for(lambda: stopped.status() == psutil.STATUS_STOPPED)
        time.sleep(STOPPED_S)
        process.send_signal(signal.SIGCONT)
        assert process.wait(120) == 0
    finally:
        process.kill()
    steps, measured, wait_s, worst_s = json.loads(output.read_text())
    assert 0 < measured * wait_s < 4.0 + STOPPED_S / 2
    assert 0 < worst_s < STOPPED_S
    assert 0 < measured < steps - 2  # those around the stop are unknown


def slowly(value):
    time.sleep(0.02)
    return value


def loop_over(data):
    for _batch in data.prefetch(1):
        time.sleep(0.005)


def test_a_loop_of_ones_own_waits_for_its_stage(monkeypatch):
    """Each batch sleeps for 20 ms in Python, while the loop sleeps for 5: 15 are waited for."""
    from tensorflow.python.data.ops import iterator_ops

    from keras_gpukit.scripts.custom_loop import OwnLoops

    monkeypatch.setattr(iterator_ops.OwnedIterator, "__next__", iterator_ops.OwnedIterator.__next__)
    monkeypatch.setattr(tf.GradientTape, "gradient", tf.GradientTape.gradient)
    loops = OwnLoops()
    loops.install()
    data = tf.data.Dataset.range(60).map(lambda at: tf.numpy_function(slowly, [at], tf.int64))
    loop_over(data)
    summary = loops.summary()
    (first, *_) = summary.findings
    assert first.code == "input-bound"
    here = "tests/realtime/test_input_wait.py"
    place = f"{here}:{slowly.__code__.co_firstlineno}"  # what the lambda only calls
    assert f"the bottleneck is slowly ({here}:" in first.title
    assert first.defined == f"slowly is defined at {place}"
    assert loops.place == f"{here}:{loop_over.__code__.co_firstlineno + 1}"
    assert summary.steps == 59
    assert summary.utilization.host is not None
    assert 0.01 <= summary.input_wait_s <= 0.03
    assert 0.5 <= summary.input_stall_fraction <= 0.95
