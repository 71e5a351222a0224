"""What is predicted before training is what training takes."""

import io
import json
import subprocess
import sys
from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf
from helpers import prepared
from helpers.processes import environment
from helpers.training import SlowPyDataset, compiled, sensitive_model, small_model, summary_of
from rich.console import Console

import keras_gpukit as gpukit
from keras_gpukit.reports import units
from keras_gpukit.reports.memory import memory_view as render
from keras_gpukit.reports.terminal import print_anywhere
from keras_gpukit.saved_runs.log_folder import load_report

CASES = Path(__file__).parent / "cases"
X, Y = np.ones((64, 8), "float32"), np.ones((64, 1), "float32")


def predict(model=None, batch=(X, Y), **options):
    return gpukit.predict_memory(model or small_model(), batch, verbose=False, **options)


def shown(prediction):
    console = Console(width=120, record=True, file=io.StringIO())
    print_anywhere(render(prediction), console)
    return " ".join(console.export_text().replace("│", " ").split())


def test_weights_and_slots_are_exact_and_the_rest_is_a_range():
    model = small_model(optimizer="adam")
    prediction = predict(model)
    assert (prediction.batch_size, prediction.execution) == (64, "graph")
    # Nine weights, the loss with its count, and the optimizer's two slots of each and its own.
    sizes = [int(np.prod(each.shape)) * 4 for each in model.optimizer.variables[2:]]
    assert sum(sizes) == 2 * 9 * 4
    for each in (prediction.low, prediction.high):
        assert each.slots_bytes - sum(sizes) <= 16
        assert 9 * 4 <= each.weights_bytes <= 9 * 4 + 16
    low, high = prediction.low.total_bytes, prediction.high.total_bytes
    assert low <= prediction.peak_bytes <= high


def test_arrays_take_what_keras_makes_of_them():
    as_fed = predict()
    for dtype in ("float16", "float64"):
        assert predict(batch=(X.astype(dtype), Y)).low == as_fed.low


def test_activations_follow_the_batch():
    model = compiled(keras.layers.Dense(512, "relu"), keras.layers.Dense(1))
    small, large = (predict(model, batch_size=size) for size in (64, 256))
    assert small.largest[0].layer in {layer.name for layer in model.layers}
    assert small.largest[0].shape == (64, 512)
    assert large.low.activations_bytes == pytest.approx(4 * small.low.activations_bytes, rel=0.05)


def test_with_a_limit_the_largest_batch_is_found_if_there_is_one(capsys):
    found = predict(limit_bytes=8 * 2**20)
    assert found.fits_batch_size > 64
    over = predict(batch_size=2 * found.fits_batch_size)
    assert over.high.total_bytes > 8 * 2**20 * 0.4
    # On a large device it is not a bound of the search.
    half, whole = (predict(limit_bytes=gib * 2**30).fits_batch_size for gib in (40, 80))
    assert whole == pytest.approx(2 * half, rel=0.1)
    gpukit.predict_memory(small_model(), (X, Y), limit_bytes=64)  # it prints by default
    printed = " ".join(capsys.readouterr().out.replace("│", " ").split())
    none_fits = "no batch is predicted to fit (10 % and room for fragmentation are left free)"
    assert none_fits in printed


def test_what_is_held_in_a_loop_is_named_as_left_out_and_no_batch_is_said_to_fit():
    model = compiled(keras.layers.LSTM(4), keras.layers.Dense(1), shape=(5, 8))
    found = predict(model, (np.ones((64, 5, 8), "float32"), Y), limit_bytes=2**20)
    assert "loops, branches and functions is not counted (While)" in found.unknown_because
    text = shown(found)
    assert f"peak at least {units.size(found.low.total_bytes)} " in text
    assert "(9" not in text
    assert "from" not in text
    assert f"no batch above {found.fits_batch_size:,} fits, and smaller ones may not" in text


@pytest.fixture
def with_cudnn(monkeypatch):
    """Lets Keras choose cuDNN's kernels, as on a GPU. Without one they can be traced, not run."""
    of_keras = sys.modules["keras.src.backend.tensorflow.rnn"]
    monkeypatch.setattr(of_keras, "_is_gpu_available", lambda: True)
    monkeypatch.setattr("keras_gpukit.memory.step_memory._has_gpu", lambda: True)


def predicted_for(*layers, shape, batch_size):
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model = compiled(*layers, keras.layers.Dense(10), shape=shape, optimizer="adam", loss=loss)
    inputs = np.broadcast_to(np.float32(0), (batch_size, *shape))
    return predict(model, (inputs, np.zeros(batch_size, "int32")))


@pytest.mark.parametrize(
    ("kind", "layers", "units", "dtype", "measured"),
    [
        ("LSTM", 2, 512, "float32", 2_314_440_100),
        ("LSTM", 1, 512, "float32", 1_350_165_140),
        ("GRU", 2, 512, "float32", 2_454_087_588),
        ("LSTM", 2, 512, "mixed_float16", 1_238_200_508),
        ("LSTM", 2, 512, "mixed_bfloat16", 2_976_238_244),
    ],
)
def test_what_cudnn_keeps_is_predicted_as_it_was_measured_on_an_h100(
    kind, layers, units, dtype, measured, with_cudnn
):
    stack = [
        getattr(keras.layers, kind)(units, return_sequences=number < layers - 1, dtype=dtype)
        for number in range(layers)
    ]
    prediction = predicted_for(*stack, shape=(200, 64), batch_size=256)
    assert not prediction.is_lower_bound
    # What the allocator rounds up differs, by up to 128 MiB.
    assert prediction.peak_bytes == pytest.approx(measured, rel=0.06)


def test_what_cudnn_keeps_follows_the_layers_and_the_batch(with_cudnn):
    def steps(layer, batch_size):
        return predicted_for(layer, shape=(50, 4), batch_size=batch_size).low.activations_bytes

    lstm, gru = keras.layers.LSTM(64), keras.layers.GRU(64)
    hidden = 32 * 50 * 64 * 4
    assert steps(lstm, 32) > 5 * hidden
    assert steps(gru, 32) == pytest.approx(steps(lstm, 32) + hidden, rel=0.02)
    assert steps(lstm, 128) == pytest.approx(4 * steps(lstm, 32), rel=0.05)


def test_steps_compiled_by_xla_need_at_most_what_is_predicted():
    model = small_model(optimizer="adam", jit_compile=True)
    found = predict(model, limit_bytes=8 * 2**20)
    assert found.peak_bytes == found.high.total_bytes
    text = shown(found)
    assert f"peak at most {units.size(found.high.total_bytes)}" in text
    assert f"a batch of {found.fits_batch_size:,} is predicted to fit, and larger ones may" in text
    assert "An upper bound: XLA fuses operations" in text
    assert "from" not in text


class Unbuilt(keras.Model):
    """Has no `call`, as many models with a training step of their own."""

    def __init__(self):
        super().__init__()
        self.dense = keras.layers.Dense(1)

    def train_step(self, data):
        x, y = data
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((self.dense(x) - y) ** 2)
        variables = self.trainable_variables
        self.optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
        return {"loss": loss}


def outside():
    """Returns a model with two optimizers: its own, and one that only its step refers to."""
    other = keras.optimizers.Adam()
    critic = keras.Sequential([keras.Input((8,)), keras.layers.Dense(16), keras.layers.Dense(1)])

    class Two(keras.Sequential):
        def compile(self, mine, **options):
            super().compile(**options)
            self.mine = mine

        def train_step(self, data):
            x, y = data
            with tf.GradientTape(persistent=True) as tape:
                loss = tf.reduce_mean((self(x) - y) ** 2)
                criticised = tf.reduce_mean((critic(x) - y) ** 2)
            for optimizer, loss_of, model in ((self.mine, loss, self), (other, criticised, critic)):
                variables = model.trainable_variables
                optimizer.apply(tape.gradient(loss_of, variables), variables)
            return {"loss": loss}

    model = Two([keras.Input((8,)), keras.layers.Dense(1)])
    model.compile(keras.optimizers.Adam(), jit_compile=False)
    return model, critic, other


def test_every_optimizer_and_model_that_the_step_uses_counts():
    model, critic, other = outside()
    predicted = predict(model).low
    memory = summary_of(model, X, Y).memory

    def size(*variables):
        return sum(int(np.prod(each.shape)) * each.value.dtype.size for each in variables)

    # `compile` made one more optimizer, which no step uses and which has no slots.
    slots = size(*model.mine.variables, *other.variables, *model.optimizer.variables)
    weights = size(*model.variables, *model.metrics_variables, *critic.variables)
    for found in (predicted, memory):
        assert (found.weights_bytes, found.slots_bytes) == (weights, slots)


def built_model():
    model = sensitive_model()
    model.optimizer.build(model.trainable_variables)
    return model


@pytest.mark.parametrize("make", [built_model, lambda: outside()[0]])
def test_training_is_the_same_afterwards(make):
    def losses(*, predicts):
        keras.utils.set_random_seed(1)
        model = make()
        if predicts:
            predict(model)
        return model.fit(X, Y, batch_size=16, epochs=2, verbose=0).history["loss"]

    assert losses(predicts=True) == losses(predicts=False)


def test_a_model_that_is_not_built_is_built_as_fit_builds_it():
    model = Unbuilt()
    model.compile("adam", jit_compile=False)
    prediction = predict(model, SlowPyDataset(4, 0.0))
    assert prediction.batch_size == 16
    assert prediction.low.weights_bytes >= 9 * 4
    assert prediction.low.slots_bytes >= 2 * 9 * 4


def test_a_monitor_predicts_only_where_that_costs_little():
    def memory(**options):
        monitor = gpukit.Monitor(None, verbose=0, **options)
        data = tf.data.Dataset.from_tensor_slices((X, Y)).batch(16)
        history = sensitive_model().fit(data, epochs=2, verbose=0, callbacks=[monitor])
        return monitor.summary.memory, history.history["loss"]

    without, losses = memory(predict_memory=False)
    assert without.prediction is None
    assert memory()[0].not_predicted_because == "no device is measured"
    live, same_losses = memory(predict_memory=True)
    assert live.not_predicted_because is None
    assert live.prediction.batch_size == 16
    assert live.prediction.low.weights_bytes == live.weights_bytes
    assert losses == same_losses


@pytest.mark.parametrize("value", ["always", None, 2, [True], np.ones(2)], ids=str)
@pytest.mark.parametrize(
    ("callback", "name"), [(gpukit.GPUMemory, "predict"), (gpukit.Monitor, "predict_memory")]
)
def test_a_bad_choice_is_named_as_the_caller_wrote_it(callback, name, value):
    with pytest.raises(ValueError, match=rf"`{name}` must be .* Received: {name}="):
        callback(None, **{name: value})


@pytest.mark.parametrize("eager", [False, True])
def test_a_run_in_progress_shows_the_prediction_after_its_first_epoch(tmp_path, eager):
    monitor = gpukit.Monitor(tmp_path / "all", verbose=0, predict_memory=True)
    model = small_model(optimizer="adam", run_eagerly=eager)
    model.fit(X, Y, batch_size=16, epochs=3, verbose=0, callbacks=[monitor])
    lines = (tmp_path / "all" / "gpukit" / "run.jsonl").read_text().splitlines(keepends=True)
    ends = [number for number, line in enumerate(lines) if json.loads(line)["kind"] == "epoch"]
    (folder := tmp_path / "so far" / "gpukit").mkdir(parents=True)
    (folder / "run.jsonl").write_text("".join(lines[: ends[1]]))  # until the second epoch's end
    (run,) = load_report(tmp_path / "so far").runs
    live, memory = monitor.summary.memory, run.summary.memory
    assert run.summary.ending is None
    assert (memory.weights_bytes, memory.slots_bytes) == (live.weights_bytes, live.slots_bytes)
    # What an eager step does to Python objects must not happen once more during the run.
    assert memory.prediction == (None if eager else live.prediction)
    assert live.prediction.batch_size == 16
    if eager:
        assert memory.not_predicted_because == "eager steps are predicted when the run is over"


class Frame:
    """Stands for a data frame, which has a shape and no dtype."""

    def __init__(self, values):
        self.values, self.shape = values, values.shape

    def to_numpy(self):
        return self.values


def test_a_dataset_and_data_frames_have_the_batch_size_that_fit_takes():
    data = tf.data.Dataset.from_tensor_slices((X, Y)).shuffle(8).batch(16).prefetch(1)
    of_dataset, of_frames, of_arrays = (
        predict(batch=each) for each in (data, (Frame(X), Frame(Y)), (X, Y))
    )
    assert (of_dataset.batch_size, of_frames.batch_size) == (16, 64)
    assert of_frames.low.activations_bytes == of_arrays.low.activations_bytes


def test_wrong_arguments_raise():
    unknown = tf.data.Dataset.from_generator(
        lambda: iter([(X, Y)]),
        output_signature=(tf.TensorSpec((None, 8)), tf.TensorSpec((None, 1))),
    )
    for batch, error, message in (
        (unknown, ValueError, "`batch_size` must be given"),
        (7, TypeError, "Received: batch=7"),
        (([1, 2], [3, 4]), TypeError, r"`batch` must be a tuple.*Received: int in it"),
        ((X, Y, None), TypeError, "leave out None"),
        ((X, Y[:3]), ValueError, r"same number of rows.*Received: batch with \[3, 64\]"),
        ((X[:0], Y[:0]), ValueError, r"at least one.*Received: batch with \[0\] rows"),
    ):
        with pytest.raises(error, match=message):
            predict(batch=batch)
    with pytest.raises(ValueError, match="`model` must have an optimizer"):
        predict(small_model(optimizer=None))


def test_a_step_of_its_own_needs_no_optimizer():
    class Own(keras.Model):
        def train_step(self, data):
            x, y = data
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean((self(x) - y) ** 2)
            variables = self.trainable_variables
            for variable, gradient in zip(variables, tape.gradient(loss, variables), strict=True):
                variable.assign_sub(0.1 * gradient)
            return {"loss": loss}

    own = Own(x := keras.Input((8,)), keras.layers.Dense(1)(x))
    own.compile(optimizer=None)
    prediction = predict(own)
    assert prediction.low.slots_bytes == 0
    assert prediction.peak_bytes > 0


# In `make test`, the prediction is shown above, and commands on a first `fit` by find-batch-size.
@pytest.mark.long
@pytest.mark.slow
def test_the_command_predicts_what_training_then_takes():
    script, variables = CASES / "convolutions.py", environment(**prepared.COUNTING)
    command = [sys.executable, "-m", "keras_gpukit", "memory", str(script), "64"]
    options = {"capture_output": True, "text": True, "timeout": 300, "check": True}
    printed = subprocess.run(command, env=variables, **options).stdout
    assert "Batch of 64, graph steps" in printed
    assert "Trained" not in printed
    trained = prepared.run(script, "64", env=variables, timeout=300).stdout
    measured = json.loads(trained.splitlines()[-1])
    # With so few layers, one tensor more or less is a tenth of all.
    assert measured["predicted"] == pytest.approx(measured["peak"], rel=0.25)
    assert measured["predicted_by_monitor"] == pytest.approx(measured["predicted"], rel=0.05)
    assert measured["monitor_batch"] == 64
    assert measured["weights"] + measured["slots"] + measured["steps"] == measured["peak"]
