"""`split_model`: equal to the model in one place, and each part where it belongs."""

import json
from pathlib import Path

import keras
import pytest
import tensorflow as tf
from helpers import prepared

from keras_gpukit import split_model
from keras_gpukit.distributed.splitting.costs import cut
from keras_gpukit.frameworks import keras_trainer

CASES = Path(__file__).parent / "cases"
MODELS = ("residual", "nested")


@pytest.fixture(scope="module")
def found():
    """What training in a process with four logical CPUs gave."""
    done = prepared.run(CASES / "split_models.py", timeout=600)
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.slow
@pytest.mark.parametrize(
    "case", [*MODELS, "random_and_running", "recurrent", "shared_with_two_ends", "AdamW", "mixed"]
)
def test_losses_and_weights_are_those_of_the_model_in_one_place(found, case):
    assert found[case]["split"] == pytest.approx(found[case]["whole"], rel=1e-6)
    assert found[case]["weights_equal"]
    if case in ("AdamW", "mixed"):  # weight decay, clipping and averages send no tensors
        assert found[case]["tensor_count"] == 2 * len(found[case]["crossings"])


@pytest.mark.slow
@pytest.mark.parametrize("case", MODELS)
def test_only_what_passes_a_boundary_is_sent(found, case):
    """Activations forward, their gradients back; in addition only single numbers and targets."""
    run = found[case]
    forward = [tuple(end.lstrip("/") for end in ends) for ends in run["crossings"]]
    back = [ends[::-1] for ends in forward]
    assert sorted(map(tuple, run["tensors"])) == sorted({*forward, *back})
    # At most: where gradients of one tensor come from one device, their sum is sent.
    assert run["tensor_count"] <= 2 * len(forward)
    devices = len(run["stages"])
    # To each further device: the learning rate, the count, and the end of the step. To the last
    # one: the targets, the loss's weight and number of examples, and back the loss.
    assert run["sent"] - run["tensor_count"] <= 3 * (devices - 1) + 4


@pytest.mark.slow
@pytest.mark.parametrize("case", MODELS)
def test_layers_variables_and_slots_are_where_the_plan_says_also_inside_models(found, case):
    run = found[case]
    assert run["variables_where_planned"]
    assert len(run["optimizer_devices"]) == len(run["stages"])
    assert max(run["memory"]) < 0.75 * sum(run["memory"])
    if case == "nested":
        assert (run["stages"][0], run["stages"][-1]) == (["backbone/dense0"], ["head"])


@pytest.mark.slow
def test_it_trains_saves_and_loads_as_ever_and_the_record_of_placement_confirms_it(found):
    run = found["as ever"]
    assert run["iterations"] == 6  # those of the model's training before: its state came along
    assert run["split"] == pytest.approx(run["whole"], rel=1e-5)
    assert run["loaded_is"] == [True, False]
    assert run["loaded_on"] == ["CPU:0"]
    assert run["prediction_difference"] < 1e-6
    assert run["evaluated"] == pytest.approx([run["evaluated"][0]] * 3, rel=1e-5)
    assert run["further"][0] == pytest.approx(run["further"][1], rel=1e-5)
    assert set(run["operations"]) == {"CPU:0", "CPU:1"}
    assert min(run["operations"].values()) > 10
    count, between = run["transfers"]
    assert set(between) == {"CPU:0 to CPU:1", "CPU:1 to CPU:0"}
    assert count == sum(between.values())


class Subclassed(keras.Model):
    def call(self, inputs):
        return inputs


class OwnConstructor(keras.Model):
    def __init__(self, width):
        first = keras.Input((4,))
        super().__init__(first, keras.layers.Dense(width)(keras.layers.Dense(width)(first)))


def two_layers():
    return keras.Sequential(
        [keras.Input((4,)), keras.layers.Dense(2, name="a"), keras.layers.Dense(2, name="b")]
    )


def sharing_a_variable():
    model = two_layers()
    model.layers[1]._trainable_variables[0] = model.layers[0].kernel
    return model


def of_unknown_length():
    first = keras.Input((None, 4))
    return keras.Model(first, keras.layers.Dense(1)(keras.layers.Dense(2)(first)))


@pytest.fixture
def two_devices(monkeypatch):
    devices = [tf.config.LogicalDevice(f"/device:GPU:{index}", "GPU") for index in range(3)]
    monkeypatch.setattr(tf.config, "list_logical_devices", lambda kind=None: devices)
    return ["/GPU:0", "/GPU:1"]


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (lambda: Subclassed(), "Functional or Sequential"),
        (lambda: keras.Sequential([keras.layers.Dense(1)]), "known shapes"),
        (sharing_a_variable, "share the variable"),
        (lambda: OwnConstructor(2), "OwnConstructor has a constructor of its own"),
        (of_unknown_length, "more unknown dimensions than the batch"),
    ],
)
def test_models_that_cannot_be_taken_apart_are_refused(two_devices, model, words):
    with pytest.raises(ValueError, match=words):
        split_model(model(), two_devices)


@pytest.mark.parametrize(
    ("devices", "options", "error", "words"),
    [
        (["/GPU:0", "/GPU:7"], {}, ValueError, "no device '/GPU:7'; it has /GPU:0"),
        (["/GPU:0", "gpu:0"], {}, ValueError, "twice"),
        (["/GPU:0"], {}, ValueError, "at least two"),
        (["/GPU:0", "/GPU:1", "/GPU:2"], {}, ValueError, "2 layers, fewer than the 3 devices"),
        ("/GPU:0", {}, TypeError, "list of device names"),
        (None, {"batch": 0}, ValueError, "at least 1"),
        (None, {"batch": "many"}, TypeError, "number of examples"),
        (None, {"optimizer": "adamant"}, ValueError, "Keras optimizer"),
        (None, {"boundaries": ["c"]}, ValueError, "no layer 'c'"),
        (None, {"boundaries": ["a"]}, ValueError, "none the model's first"),
        (None, {"boundaries": ["a", "b"]}, ValueError, "need 1 boundaries"),
        (None, {"boundaries": "b"}, TypeError, "list of layer names"),
        (None, {"layers": {"b": "/GPU:2"}}, ValueError, "not among the devices"),
        (None, {"layers": {"b": "/GPU:0"}}, ValueError, "leaves '/GPU:1' without"),
        (None, {"layers": ["b"]}, TypeError, "dict of layer names"),
        (None, {"layers": {}, "boundaries": ["b"]}, ValueError, "not both"),
        (None, {"verbose": "no"}, ValueError, "0, 1 or 2"),
    ],
)
def test_wrong_arguments_are_named(two_devices, devices, options, error, words):
    with pytest.raises(error, match=words) as raised:
        split_model(two_layers(), devices or two_devices, **options)
    assert "Received: " in str(raised.value)


def test_the_largest_stage_is_as_small_as_it_can_be():
    assert cut([1, 1, 1, 1], 2, [0, 1, 1, 1]) == (2,)
    assert cut([8, 1, 1, 1], 2, [0, 1, 1, 1]) == (1,)
    assert cut([1, 1, 1, 9], 3, [0, 1, 1, 1]) == (2, 3)
    assert cut([0, 0, 5], 3, [0, 1, 1, 1]) == (1, 2)
    # Nearly as even, and half the bytes pass.
    assert cut([100, 100, 4, 100, 100], 2, [0, 9, 8, 4, 9]) == (3,)


def test_keras_has_the_private_names_that_keep_updates_in_place():
    optimizer = keras.optimizers.Adam()
    before = optimizer._backend_update_step
    keras_trainer.leave_distribution_out(optimizer)
    for name in keras_trainer._DISTRIBUTED:
        assert name in vars(optimizer), name
    assert optimizer._backend_update_step.__func__ is not before.__func__
    assert keras_trainer.step_count(optimizer) is optimizer.iterations
