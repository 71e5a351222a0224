"""What `diagnose` says of pipelines with known timing, and that it leaves no trace."""

import math
import random
import threading
import time

import keras
import numpy as np
import pytest
import tensorflow as tf
from helpers.processes import wait_for
from helpers.stopped_clock import StoppedClock
from helpers.training import (
    BATCH,
    FEATURES,
    SlowPyDataset,
    arrays,
    fast_dataset,
    sensitive_model,
    slow_generator,
    small_model,
)

from keras_gpukit.frameworks import keras_models, tf_runtime
from keras_gpukit.memory.untouched import put_back, untouched
from keras_gpukit.records import Rate, Round
from keras_gpukit.reports.rates import conclusions
from keras_gpukit.reports.rates import diagnosis_view as render
from keras_gpukit.reports.terminal import as_text
from keras_gpukit.tuning import diagnose as diagnosing
from keras_gpukit.tuning.diagnose import conclude, diagnose
from keras_gpukit.tuning.measured_rates import (
    hold,
    mean_interval,
    own_cpu_s,
    replay,
    summarize,
    within_fit,
)
from keras_gpukit.tuning.sources import endless


class Adversary(keras.Model):
    """Has whatever its own `train_step` can have: two optimizers, counts, sources of chance."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = tuple(keras.layers.Dense(units, use_bias=False) for units in (4, 1))
        self.first, self.second = self.blocks
        self.drop = keras.layers.Dropout(0.5)
        self.other = keras.optimizers.Adam(0.01)
        self.mean = keras.metrics.Mean(name="mean")
        self.count = tf.Variable(0)
        self.seen = {"steps": 0}
        self.traced = []

    def call(self, inputs, training=False):
        return self.second(self.drop(self.first(inputs["x"]), training=training))

    def train_step(self, data):
        inputs, targets, weights = data
        self.traced.append("train_step")
        self.seen["steps"] += 1
        with tf.GradientTape(persistent=True) as tape:
            noise = keras.random.normal(tf.shape(targets)) + tf.random.normal(tf.shape(targets))
            error = self(inputs, training=True) - targets + 0.1 * noise
            loss = tf.reduce_mean(weights[:, None] * error**2)
        for layer, optimizer in ((self.first, self.optimizer), (self.second, self.other)):
            variables = layer.trainable_variables
            gradients = tape.gradient(loss, variables)
            optimizer.apply_gradients(zip(gradients, variables, strict=True))
        self.mean.update_state(loss)
        self.count.assign_add(1)
        return {"loss": self.mean.result()}


def adversary(**options) -> keras.Model:
    keras.utils.set_random_seed(7)
    model = Adversary()
    model.compile("adam", **options)
    return model


def unbuilt_model(**options) -> keras.Model:
    keras.utils.set_random_seed(7)
    first, last = (keras.layers.Dense(units, use_bias=False) for units in (4, 1))
    model = keras.Sequential([first, keras.layers.Dropout(0.5), last])
    model.compile("adam", "mse", metrics=["mae"], **{"jit_compile": False, **options})
    return model


def mixed_model() -> keras.Model:
    """With an optimizer that scales the loss, around Adam."""
    keras.mixed_precision.set_dtype_policy("mixed_float16")
    try:
        return unbuilt_model()
    finally:
        keras.mixed_precision.set_dtype_policy("float32")


def dictionaries() -> tf.data.Dataset:
    inputs, targets = arrays(4)
    weights = np.linspace(0, 1, len(inputs), dtype="float32")
    return tf.data.Dataset.from_tensor_slices(({"x": inputs}, targets, weights)).batch(BATCH)


def find_variables(model: keras.Model) -> list[np.ndarray]:
    optimizers = [model.optimizer, getattr(model, "other", None)]
    owners = [model, *(optimizer for optimizer in optimizers if optimizer is not None)]
    variables = [variable for owner in owners for variable in owner.variables]
    return [np.array(keras.ops.convert_to_numpy(variable)) for variable in variables]


def find_state(model: keras.Model) -> dict:
    """Everything but variables that training changes."""
    of_keras = getattr(keras_models.keras_globals(), "global_seed_generator", None)
    return {
        "train_function": model.train_function,
        "stop_training": model.stop_training,
        "history": getattr(model, "history", None),
        "built": [layer.built for layer in (model, *model.layers)],
        "optimizer built": model.optimizer.built,
        "metrics": [metric.name for metric in model.metrics],
        "count": int(model.count) if hasattr(model, "count") else None,
        "seen": dict(getattr(model, "seen", {})),
        "traced": list(getattr(model, "traced", [])),
        "python": random.getstate(),
        "numpy": [np.array(part).tolist() for part in np.random.get_state()],
        "tensorflow": tf_runtime.eager_seeds().getstate(),
        "generator": tf.random.get_global_generator().state.numpy().tolist(),
        "keras": None if of_keras is None else of_keras.state.numpy().tolist(),
    }


def assert_same_variables(before: list[np.ndarray], after: list[np.ndarray]) -> None:
    assert len(before) == len(after)
    for one, other in zip(before, after, strict=True):
        assert one.tobytes() == other.tobytes()


def train(model: keras.Model, dataset) -> list[np.ndarray]:
    model.fit(dataset, epochs=2, verbose=0, shuffle=False)
    return find_variables(model)


MODELS = {
    "jit": (sensitive_model, {"jit_compile": True}, lambda: fast_dataset(4)),
    "several steps": (sensitive_model, {"steps_per_execution": 8}, lambda: fast_dataset(8)),
    "own train_step": (adversary, {}, dictionaries),
    "own train_step, eager": (adversary, {"run_eagerly": True}, dictionaries),
    "unbuilt": (unbuilt_model, {}, lambda: fast_dataset(4)),
    "mixed precision": (mixed_model, {}, lambda: fast_dataset(4)),
}


# Between them, the others show what these do.
LONG = ("jit", "several steps", "own train_step", "own train_step, eager", "unbuilt")


@pytest.mark.parametrize(
    "kind",
    [pytest.param(kind, marks=[pytest.mark.long] if kind in LONG else []) for kind in MODELS],
)
def test_leaves_a_model_and_its_future_untouched(kind):
    make, options, make_dataset = MODELS[kind]
    results = []
    for watched in (False, True):
        keras.utils.clear_session()  # Keras 3.12 goes on with the seeds of the model before
        model, dataset = make(**options), make_dataset()
        keras.utils.set_random_seed(11)
        if kind == "own train_step":
            train(model, dataset)
        keras.random.normal((1,))
        if watched:
            variables, state = find_variables(model), find_state(model)
            diagnose(model, dataset, seconds=0.2, verbose=False)
            assert_same_variables(variables, find_variables(model))
            assert find_state(model) == state
        results.append(train(model, dataset))
    assert_same_variables(*results)


def test_passes_on_what_the_dataset_raises():
    def fail_at_50(number, batch):
        ok = tf.debugging.assert_less(number, np.int64(50), "the fiftieth is broken")
        with tf.control_dependencies([ok]):
            return tuple(tf.identity(part) for part in batch)

    model = sensitive_model()
    variables, state = find_variables(model), find_state(model)
    with pytest.raises(tf.errors.InvalidArgumentError, match="the fiftieth is broken"):
        diagnose(model, fast_dataset(60).enumerate().map(fail_at_50), verbose=False)
    assert_same_variables(variables, find_variables(model))
    assert find_state(model) == state


def test_a_restore_that_fails_stops_no_other_and_one_that_is_interrupted_runs_again():
    restored, interrupts = [], iter([KeyboardInterrupt])

    def fail():
        raise RuntimeError("a restore failed")

    restores = [fail, lambda: restored.append("second")]
    with pytest.raises(RuntimeError, match="a restore failed"), put_back(restores):
        pass
    with pytest.raises(KeyError, match="the user's"), put_back(restores):
        raise KeyError("the user's")
    assert restored == ["second", "second"]
    restored.clear()

    def interrupted():
        restored.append("begun")
        for interrupt in interrupts:
            raise interrupt
        restored.append("done")

    with pytest.raises(KeyboardInterrupt), put_back([interrupted, lambda: restored.append("next")]):
        pass
    assert restored == ["begun", "begun", "done", "next"]


@pytest.mark.parametrize("failure", [KeyboardInterrupt, RuntimeError])
def test_workers_end_with_an_experiment_that_fails(failure):
    def experiment(step, iterator):
        next(iterator)
        raise failure

    model, before = small_model(), threading.active_count()
    dataset = SlowPyDataset(8, 0.001, workers=2)
    with pytest.raises(failure), untouched(model):
        within_fit(model, endless(dataset), experiment)
    wait_for(lambda: threading.active_count() <= before)


@pytest.mark.slow
@pytest.mark.long
def test_leaves_a_mirrored_model_untouched(run_script):
    run_script("""
import keras, numpy as np, tensorflow as tf
from keras_gpukit.tuning.diagnose import diagnose
from helpers.training import SlowPyDataset, mirrored_cpus, slow_dataset, sensitive_model

with mirrored_cpus().scope():
    model = sensitive_model()

def values():
    # Each replica's own, batch statistics among them.
    parts = [variable.value for variable in (*model.variables, *model.optimizer.variables)]
    return [part.numpy() for value in parts for part in getattr(value, "values", (value,))]

for dataset in (slow_dataset(8, 0.02), SlowPyDataset(8, 0.02)):
    before = values()
    diagnosis = diagnose(model, dataset, seconds=1)
    after = values()
    assert len(before) == len(after)
    assert all(a.tobytes() == b.tobytes() for a, b in zip(before, after))
    assert diagnosis.examples_per_batch == 16, diagnosis
model.fit(dataset, verbose=0)
""")


def test_processor_time_that_this_process_used_is_counted(monkeypatch):
    # Those of other tests may end meanwhile, and their time goes with them.
    monkeypatch.setattr("psutil.Process.children", lambda process, recursive: [])
    before_s, end_s = own_cpu_s(), time.thread_time() + 0.1
    while time.thread_time() < end_s:
        sum(range(100))
    assert own_cpu_s() - before_s >= 0.1


@pytest.mark.parametrize(("rest_s", "fills_before"), [(0.0, True), (0.1, False)])
def test_a_pipeline_that_keeps_up_fills_its_buffers_before_training(
    rest_s, fills_before, monkeypatch
):
    rests, clock = [], StoppedClock.of(monkeypatch, diagnosing)

    def rest(longest_s):
        rests.append(longest_s)
        clock.now_s += rest_s

    monkeypatch.setattr(diagnosing, "wait_until_quiet", rest)
    diagnosis = diagnose(small_model(), fast_dataset(100), seconds=1, verbose=False)
    assert len(diagnosis.rounds) == diagnosing.ROUNDS
    # One before training from memory in each, and before training from the second on.
    assert len(rests) == diagnosing.ROUNDS + fills_before * (diagnosing.ROUNDS - 1)


def test_arrays_are_fed_in_batches_and_batches_may_have_parts_that_are_none(capsys):
    diagnosis = diagnose(small_model(), arrays(8), batch_size=4, seconds=0.2)
    assert diagnosis.examples_per_batch == 4
    assert "data alone" in capsys.readouterr().out
    batches = tf.data.Dataset.from_tensors((*arrays(1), None)).repeat(4)
    diagnosis = diagnose(small_model(), batches, seconds=0.2, verbose=False)
    assert diagnosis.examples_per_batch == BATCH


def test_held_batches_keep_what_tracing_depends_on():
    dataset = tf.data.Dataset.from_tensor_slices(arrays(1)).batch(3).repeat()
    held = hold(iter(dataset), dataset.element_spec)
    assert held.element_spec == dataset.element_spec
    assert [len(batch[0]) for batch in held] == [3, 3, 3, 3, 3, 1, 3, 3]
    again = replay(held)
    assert again.element_spec == dataset.element_spec
    assert [len(batch[0]) for batch in again.take(5)] == [3] * 5
    # The thread that tunes a pipeline may sleep for as long as that was used, before it ends.
    assert again.options().autotune.enabled is False


@pytest.mark.parametrize(
    ("dataset", "error", "message"),
    [
        (lambda: slow_generator(4, 0.0), TypeError, "from_generator"),
        (lambda: [1, 2], TypeError, "must be a tf.data.Dataset"),
        (lambda: fast_dataset(4).take(0), ValueError, "at least one batch"),
        (lambda: fast_dataset(4).filter(lambda *batch: False), ValueError, "at least one batch"),
        (lambda: SlowPyDataset(0, 0.0), ValueError, "at least one batch"),
        (lambda: (np.zeros((4, FEATURES)), np.zeros((3, 1))), ValueError, "same number of rows"),
        (lambda: (np.zeros((0, FEATURES)), np.zeros((0, 1))), ValueError, "at least one"),
        (lambda: ([1.0, 2.0], [1.0, 2.0]), TypeError, "convert lists.*Received: float"),
        (lambda: (np.zeros((4, 1)), None, np.ones(4)), TypeError, "Received: NoneType"),
        (lambda: (np.zeros((4, 1)), np.array(1.0)), ValueError, r"Received: .*shape \(\)"),
    ],
)
def test_refuses_what_it_cannot_iterate(dataset, error, message):
    model = small_model()
    with pytest.raises(error, match=message):
        diagnose(model, dataset(), verbose=False)
    assert model.train_function is None


def test_refuses_wrong_arguments():
    for arguments, error, words in (
        *(({"seconds": seconds}, ValueError, "") for seconds in (0, float("nan"))),
        *(({"seconds": "20"}, TypeError, ""), ({"summary": {"steps": 3}}, TypeError, "")),
        *(({"verbose": 3}, ValueError, ""), ({"batch_size": 8}, ValueError, "in batches already")),
        ({"dataset": arrays(1), "batch_size": 0}, ValueError, "`batch_size` must be"),
        ({"dataset": arrays(1), "batch_size": 2.5}, TypeError, "`batch_size` must be"),
        ({"dataset": arrays(1), "batch_size": True}, TypeError, "`batch_size` must be"),
        *(
            ({"model": model}, TypeError, r"must be a compiled keras\.Model")
            for model in ("model", None)
        ),
        ({"model": keras.Sequential([keras.layers.Dense(1)])}, ValueError, "must be compiled"),
    ):
        with pytest.raises(error, match=rf"{words}.*Received: "):
            diagnose(**{"model": small_model(), "dataset": fast_dataset(4), **arguments})


def rounds(data: float, actual: float, compute: float, **load) -> list[Round]:
    return [Round(data * k, actual * k, compute * k, **load) for k in (0.98, 0.99, 1, 1.01, 1.02)]


def test_a_ratio_within_the_noise_is_no_gain():
    assert conclude(rounds(1000, 100, 103)).ceiling_gain is None
    noisy = [Round(100, actual, 100) for actual in (70, 110, 80, 60, 75)]
    assert conclude(noisy).ceiling_gain is None
    assert conclude(rounds(100, 100, 140)).ceiling_gain == pytest.approx(1.4)


def test_contention_has_the_most_particular_cause_that_fits():
    for load, cause in (
        ({"cores_busy_fraction": 0.97, "gil_wait_s": 0.005}, "interpreter lock"),
        ({"cores_busy_fraction": 0.97, "gil_wait_s": 0.0002}, "all cores busy"),
        ({"cores_busy_fraction": 0.5, "gil_wait_s": 0.0002}, "nothing ahead"),
        ({}, "nothing ahead"),
    ):
        assert conclude(rounds(100, 50, 100, **load)).contention.cause == cause
    assert conclude(rounds(100, 70, 100, cores_busy_fraction=0.5)).contention.cause is None
    assert conclude(rounds(100, 97, 300)).contention is None


def test_disturbed_rounds_do_not_widen_the_interval():
    assert summarize([10, 11, 12]) == Rate(11, 10, 12)
    assert summarize([1, 1, 1, *range(10, 19), 90, 90, 90]) == Rate(14, 10, 18)
    # The textbook's ranks of a 95 % interval of the median: the 6th and the 15th of 20.
    assert summarize(range(1, 21)) == Rate(10.5, 6, 15)
    assert summarize(range(1, 9)) == Rate(4.5, 1, 8)


def test_intervals_of_means():
    assert mean_interval([3.0]) == (-math.inf, math.inf)
    assert mean_interval([1, 2, 3]) == pytest.approx((2 - 2.484, 2 + 2.484), abs=1e-3)


def test_says_in_words_what_there_is_to_gain():
    diagnosis = conclude(rounds(410, 92, 130, cores_busy_fraction=0.98, gil_wait_s=1e-4))
    ceiling, contention = conclusions(diagnosis)
    assert ceiling.startswith("Without input, steps are 1.41× faster (")
    assert "29 % slower" in contention
    assert "The cores are mostly busy" in contention
    no_faster = conclusions(conclude(rounds(410, 130, 130)))[0]
    assert no_faster.startswith("Without input, steps are not measurably faster")
    assert "together" in as_text(render(diagnosis))
    assert "together" in str(diagnosis)
    assert "The cores are mostly busy" in str(diagnosis)
    assert "Diagnosis(" not in str(diagnosis)


def test_training_faster_than_its_input_is_a_contradiction():
    # Not within their ranges, of less than a tenth, nor where fetching outside a step takes longer.
    for data, actual in ((60, 100), (95, 100), (9.2, 10), (5000, 9000), (100, 60)):
        is_contradictory = data == 60
        diagnosis = conclude(rounds(data, actual, 3 * actual))
        assert diagnosis.is_contradictory == is_contradictory
        assert (diagnosis.ceiling_gain is None) == is_contradictory
        first, *rest = conclusions(diagnosis)
        assert first.startswith("The rates contradict each other") == is_contradictory
        if is_contradictory:
            assert "something else used the cores" in first.lower()
            assert rest == []


def test_private_names_are_still_there():
    tf.random.set_seed(1)
    tf.random.get_global_generator()
    assert hasattr(keras_models.keras_globals(), "__dict__")
    assert isinstance(tf_runtime.eager_seeds(), random.Random)
    assert isinstance(tf_runtime.global_generator(), tf.random.Generator)
    assert tf_runtime.keeps_its_items_inside(keras.optimizers.SGD()._variables)
