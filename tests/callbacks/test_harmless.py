"""A watched run is the run as it would have been."""

import copy
import functools
import json
import signal
import subprocess
import sys
from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf
from helpers.fake_nvml import FakeNVML, scenario
from helpers.launches import wait_for
from helpers.prepared import Prepared
from helpers.processes import environment
from helpers.training import (
    BATCH,
    SlowPyDataset,
    arrays,
    fast_dataset,
    sensitive_model,
    small_model,
    without_autotuning,
)

import keras_gpukit as gpukit
from keras_gpukit.profiling.placement.probe import PlacementProbe
from keras_gpukit.sensors.host import HostSensor


def shuffled():
    return tf.data.Dataset.from_tensor_slices(arrays(6)).shuffle(64, seed=3).batch(BATCH)


def random():
    numbers = tf.data.Dataset.random(seed=5, rerandomize_each_iteration=True).take(96)
    dataset = numbers.map(lambda n: (tf.fill([8], tf.cast(n % 7, tf.float32)), [1.0]))
    return without_autotuning(dataset.batch(BATCH))


INPUTS = {
    "random numbers": random,
    "without autotuning": lambda: without_autotuning(shuffled()),
    "parallel, without autotuning": lambda: without_autotuning(
        shuffled().map(lambda *batch: batch, tf.data.AUTOTUNE)
    ),
    "arrays": lambda: arrays(6)[0],
    "several workers": lambda: SlowPyDataset(6, 0.0, workers=2),
}


def seeded_model(**compile_options):
    """For tests about the input: without what only a `sensitive_model` shows."""
    keras.utils.set_random_seed(7)
    return small_model(**compile_options)


def train(callbacks, data=shuffled, make_model=sensitive_model, **compile_options):
    model = make_model(**compile_options)
    x = data()
    y = arrays(6)[1] if isinstance(x, np.ndarray) else None
    options = {"epochs": 3, "validation_data": fast_dataset(2), "verbose": 0}
    history = model.fit(x, y, callbacks=callbacks, **options)
    weights = [np.asarray(weight) for weight in model.weights]
    weights += [np.asarray(variable) for variable in model.optimizer.variables]
    return history.history, weights


@functools.cache
def unwatched(**compile_options):
    """What comes of a run that nothing watches, each time the same."""
    return train([], **compile_options)


def assert_same(one, other):
    assert one[0] == other[0]
    for left, right in zip(one[1], other[1], strict=True):
        np.testing.assert_array_equal(left, right)


def warnings_of(caplog):
    return [record.getMessage() for record in caplog.records if record.name == "keras_gpukit"]


def watching(log_dir):
    """All there is, with a capture every few steps."""
    return [gpukit.Monitor(log_dir), gpukit.Profiler(log_dir, every_steps=4, steps=2)]


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"jit_compile": True},
        {"steps_per_execution": 2},
        pytest.param({"run_eagerly": True}, marks=pytest.mark.long),
    ],
)
def test_losses_weights_and_slots_are_bit_identical(tmp_path, options, caplog):
    callbacks = watching(tmp_path)
    assert_same(unwatched(**options), train(callbacks, **options))
    assert callbacks[1].summary.captures
    assert warnings_of(caplog) == []


@pytest.mark.parametrize("data", INPUTS.values(), ids=INPUTS)
def test_every_kind_of_input_stays_bit_identical(tmp_path, data):
    unwatched, callbacks = train([], data, seeded_model), watching(tmp_path)
    assert_same(unwatched, train(callbacks, data, seeded_model))
    assert callbacks[0].summary.input.stall_fraction is not None


@pytest.mark.slow
def test_two_replicas_are_bit_identical_and_measured(run_script):
    run_script("""
import tempfile
import numpy as np, tensorflow as tf, keras
from helpers.training import arrays, BATCH, mirrored_cpus, sensitive_model
import keras_gpukit as gpukit
strategy = mirrored_cpus()
results = []
profiler = gpukit.Profiler(tempfile.mkdtemp(), every_steps=4, steps=2)
for callbacks in ([], [gpukit.Monitor(None), profiler]):
    with strategy.scope():
        model = sensitive_model()
    dataset = tf.data.Dataset.from_tensor_slices(arrays(12)).batch(BATCH, drop_remainder=True)
    history = model.fit(dataset, epochs=2, callbacks=callbacks, verbose=0)
    results.append((history.history, [np.asarray(w).tolist() for w in model.weights]))
summary = callbacks[0].summary
assert results[0] == results[1]
assert (summary.steps, summary.environment.replicas) == (24, 2)
assert 0 <= summary.input_stall_fraction <= 1
np.testing.assert_allclose(summary.examples_per_s, BATCH / summary.step_time_s, rtol=0.01)
assert set(summary.placement) == {"CPU:0", "CPU:1"}
assert profiler.summary.captures
""")


def fail(*args, **kwargs):
    raise RuntimeError("the sensor is gone")


@pytest.mark.parametrize("broken", ["sensor", "probe", "folder"])
def test_a_failing_part_is_said_once_and_the_rest_goes_on(tmp_path, caplog, monkeypatch, broken):
    monitor, said = gpukit.Monitor(tmp_path / "file" / "logs"), "the sensor is gone"
    if broken == "folder":
        (tmp_path / "file").write_text("")  # so that no folder can be made
        said = str(tmp_path / "file" / "logs")
    else:
        owner, name = {"sensor": (HostSensor, "read"), "probe": (PlacementProbe, "stop")}[broken]
        monkeypatch.setattr(owner, name, fail)
    watched = train([monitor])
    monkeypatch.undo()
    assert_same(unwatched(), watched)
    [warning] = warnings_of(caplog)
    assert said in warning
    assert monitor.summary.steps == 18
    assert monitor.summary.input_stall_fraction is not None


def test_a_pipeline_that_cannot_be_read_is_unknown(tmp_path, monkeypatch):
    monkeypatch.setattr(tf.raw_ops, "IteratorGetModelProto", fail)
    monkeypatch.setattr(tf.raw_ops, "StatsAggregatorHandle", fail)
    monitor = gpukit.Monitor(tmp_path)
    assert_same(unwatched(), train([monitor]))
    assert monitor.summary.input_stall_fraction is None
    assert "could not be read" in monitor.summary.input.unknown_because
    assert monitor.summary.step_time_s > 0


def raises_at(last, error):
    def end(batch, logs):
        if batch == last:
            raise error

    return keras.callbacks.LambdaCallback(on_train_batch_end=end)


def assert_files_are_whole(log_dir: Path) -> list[dict]:
    from tensorboard.backend.event_processing.event_file_loader import EventFileLoader

    for path in (log_dir / "gpukit").glob("events*"):
        assert list(EventFileLoader(str(path)).Load())
    lines = (log_dir / "gpukit" / "run.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


@pytest.mark.parametrize("error", [KeyboardInterrupt(), RuntimeError("theirs")])
def test_an_exception_in_another_callback_ends_fit_as_ever(tmp_path, caplog, error):
    model = small_model()
    model.make_train_function()
    before = model.train_function
    monitor = gpukit.Monitor(tmp_path)
    with pytest.raises(type(error)):
        model.fit(shuffled(), callbacks=[monitor, raises_at(4, error)], verbose=0)
    summary = monitor.summary
    assert summary.ending == "interrupted"
    assert summary.steps == 5
    assert model.train_function is before
    assert assert_files_are_whole(tmp_path)[-1]["kind"] == "summary"
    model.fit(fast_dataset(2), verbose=0)  # is not taken for it
    assert monitor.summary.steps == 5
    assert warnings_of(caplog) == []


def test_an_interrupted_run_ends_by_itself_and_the_next_one_is_watched(tmp_path):
    model, monitor = small_model(), gpukit.Monitor(tmp_path)
    with pytest.raises(RuntimeError):
        model.fit(shuffled(), callbacks=[monitor, raises_at(2, RuntimeError())], verbose=0)

    def last():
        log = tmp_path / "gpukit" / "run.jsonl"
        lines = log.read_text().splitlines() if log.exists() else []
        return json.loads(lines[-1]) if lines else {"kind": None}

    # Nothing asks for the summary: the sampling thread notices that the call is over.
    wait_for(lambda: last()["kind"] == "summary")
    assert last()["record"]["ending"] == "interrupted"
    model.fit(shuffled(), callbacks=[monitor], verbose=0)
    assert monitor.summary.ending == "completed"
    assert monitor.summary.steps == 6
    monitor.set_model(None)
    assert copy.deepcopy(monitor).summary == monitor.summary


def test_ctrl_c_in_a_step_leaves_whole_files(tmp_path):
    script = tmp_path / "endless.py"
    script.write_text("""
import sys
from helpers.training import fast_dataset, small_model
import keras_gpukit as gpukit
options = {"steps_per_epoch": 1_000_000, "verbose": 0, "callbacks": [gpukit.Monitor(sys.argv[1])]}
small_model().fit(fast_dataset(8).repeat(), **options)
""")
    with open(tmp_path / "errors", "wb") as errors:
        files = {"stdout": 1, "stderr": errors.fileno()}
        process = Prepared(script, tmp_path / "logs", env=environment(), **files)
    log = tmp_path / "logs" / "gpukit" / "run.jsonl"
    wait_for(lambda: log.exists() and '"kind":"steps"' in log.read_text(), timeout_s=120)
    process.send_signal(signal.SIGINT)
    try:
        process.wait(30)
    except subprocess.TimeoutExpired:
        # Of 200 interrupts TensorFlow itself loses about one, watched or not.
        process.send_signal(signal.SIGINT)
        process.wait(60)
    finally:
        process.kill()
    assert process.returncode in (1, 130, -signal.SIGINT)
    assert "KeyboardInterrupt" in (tmp_path / "errors").read_text()
    last = assert_files_are_whole(tmp_path / "logs")[-1]
    assert last["kind"] == "summary"
    assert last["record"]["ending"] == "interrupted"


def test_nvml_that_vanishes_is_said_once(tmp_path, caplog, monkeypatch):
    # No GPU here: NVML's library is one that loses the second GPU early, and the others later.
    from keras_gpukit.monitoring import environment as watched
    from keras_gpukit.records import GPUInfo

    gpus = scenario("vanishing_gpu", this=1)
    gpus[0].lost_after, gpus[2].lost_after = 6, 8
    monkeypatch.setitem(sys.modules, "pynvml", FakeNVML(gpus))
    listed = tuple(GPUInfo(index, gpu.name, gpu.uuid) for index, gpu in enumerate(gpus))
    monkeypatch.setattr(watched, "visible_gpus", lambda: listed)
    monkeypatch.setattr("keras_gpukit.monitoring.sampling.SAMPLE_EVERY_S", 0.05)
    monitor = gpukit.Monitor(tmp_path)
    model = small_model()
    model.fit(SlowPyDataset(40, 0.02), callbacks=[monitor], verbose=0)
    second, first, last = warnings_of(caplog)
    assert "GPU 1 can no longer be read in this run (GPU is lost)" in second
    assert "GPU 0 can no longer be read in this run (GPU is lost)" in first
    assert "Reading GPUs through NVML failed (NVMLError_GpuIsLost: GPU is lost)" in last
    found = monitor.summary.utilization.gpus
    assert [gpu.utilization_percent for gpu in found] == [80.0, 85.0, 90.0]
    assert [gpu.lost_because for gpu in found] == ["GPU is lost"] * 3


def test_on_another_backend_it_says_so_and_does_nothing(tmp_path, caplog, monkeypatch):
    # Keras' backend is fixed once it is loaded; this only has it answer otherwise.
    monkeypatch.setattr(keras.backend, "backend", lambda: "jax")
    monitor = gpukit.Monitor(tmp_path / "logs")
    for hook in (monitor.on_train_begin, monitor.on_train_end):
        hook()
    assert len(warnings_of(caplog)) == 1
    assert "jax" in warnings_of(caplog)[0]
    assert monitor.summary is None
    assert not (tmp_path / "logs").exists()


def test_the_model_saves_as_it_would_have(tmp_path):
    saved, path = [], tmp_path / "saved.keras"
    for callbacks in ([], [gpukit.Monitor(tmp_path)]):
        checkpoint = keras.callbacks.ModelCheckpoint(path)
        options = {"epochs": 2, "callbacks": [*callbacks, checkpoint], "verbose": 0}
        sensitive_model().fit(fast_dataset(4), **options)
        loaded = keras.models.load_model(path)
        saved.append((len(loaded.layers), [np.asarray(w) for w in loaded.weights]))
    assert_same(*saved)


class TrainsOnBatches(keras.callbacks.Callback):
    """Trains on data of its own in between, as some callbacks do."""

    def on_train_batch_end(self, batch, logs=None):
        if batch == 2:
            self.model.train_on_batch(*arrays(1, seed=9))
            self.model.train_function(iter([arrays(1, seed=8)]))


@pytest.mark.parametrize("tuned", [lambda data: data, without_autotuning])
def test_training_in_between_stays_bit_identical_and_measured(tmp_path, tuned):
    def data():
        return tuned(tf.data.Dataset.from_tensor_slices(arrays(6)).batch(BATCH))

    monitor = gpukit.Monitor(tmp_path)
    bare = train([TrainsOnBatches()], data, seeded_model)
    assert_same(bare, train([monitor, TrainsOnBatches()], data, seeded_model))
    assert monitor.summary.steps == 18
    assert monitor.summary.input.measured_steps > 0


def test_a_loop_of_the_users_own_goes_on(tmp_path, caplog):
    model, monitor = small_model(), gpukit.Monitor(tmp_path)
    callbacks = keras.callbacks.CallbackList([monitor], model=model)
    callbacks.on_train_begin()
    for batch in range(3):
        callbacks.on_train_batch_begin(batch)
        model.train_on_batch(*arrays(1))
        callbacks.on_train_batch_end(batch)
    callbacks.on_train_end()
    assert "step function" in monitor.summary.input.unknown_because
    assert warnings_of(caplog) == []
