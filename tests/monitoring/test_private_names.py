"""Training is the same without any one of the private names that a measurement needs.

A name is hidden from this package only: TensorFlow and Keras need most of them themselves.
"""

import functools
import importlib
import inspect
import sys
import time

import keras
import numpy as np
import pytest
import tensorflow as tf
from helpers.training import BATCH, FEATURES, arrays, small_model

import keras_gpukit as gpukit
from keras_gpukit.frameworks.private_names import NEEDED_FOR
from keras_gpukit.monitoring.step_prediction import flops_of_step
from keras_gpukit.profiling.placement.operation_names import operation_kernels
from keras_gpukit.records import to_dict
from keras_gpukit.sensors import compilations

pytestmark = pytest.mark.slow
ELSEWHERE = {  # not needed while one process trains on one device
    "changes of an input pipeline",
    "input wait with several devices",
    "rematerialize() of segments",
    "restoring a model after a trial",
    "time in collectives",
    "round trips between workers",
    "repairs of Keras on several workers",
    "loops without fit in unchanged scripts",
    "short tracebacks of unchanged scripts",
}
NAMES = sorted({name for kind in NEEDED_FOR.keys() - ELSEWHERE for name in NEEDED_FOR[kind]})


# Counts of what was measured, and details of the wait, which may really be 0.
VARYING = ("measured_steps", "batches", "costs", "_fraction", "bursts")
VARYING += ("median_s", "p95_s", "gil_wait_s", "buffered_after")
SHORT = "only the first execution of each epoch was measured"
SAID: dict[str, tuple[str, str, str | None]] = {
    "OwnedIterator._iterator_resource": ("input", "unknown_because", "could not be read"),
    "TFEpochIterator._distributed_dataset": ("validation_input", "unknown_because", SHORT),
    "UnaryUnchangedStructureDataset": ("validation_input", "unknown_because", SHORT),
    "Trainer|BaseTrainer._loss_tracker": ("validation", "examples_unknown_because", "batch size"),
    "Context.enable_graph_collection": ("operations", "unknown_because", "reading the placement"),
    "one_step_on_data": ("flops", "unknown_because", "not Keras' own"),
    "EpochIterator.data_adapter": ("memory", "not_predicted_because", "size of its batches"),
    "_frequent_tracing_detector_manager": ("input.breakdown", "retraced", None),
    "_graph_building_time_counter": ("input.breakdown", "retraced", None),
}
"""Records and their fields that say what is unknown without a name."""
FEW = (*SAID.keys() - {"TFEpochIterator._distributed_dataset", "EpochIterator.data_adapter"},)
LONG_EXCEPT_FEW = [
    pytest.param(name, marks=() if name.rpartition(":")[2] in FEW else pytest.mark.long)
    for name in NAMES
]


def hide(monkeypatch, name):
    module, _, path = name.partition(":")
    *owners, last = path.split(".")
    owner = importlib.import_module(module)
    for names in owners:  # "A|B" are a class' names of several versions
        owner = next(getattr(owner, each) for each in names.split("|") if hasattr(owner, each))

    def found(self, attribute):
        caller = sys._getframe(1).f_globals.get("__name__", "")
        if attribute == last and caller.startswith("keras_gpukit."):
            raise AttributeError(f"no attribute {last!r}")
        return original(self, attribute)

    original = (owner if isinstance(owner, type) else type(owner)).__getattribute__
    if isinstance(owner, type):
        monkeypatch.setattr(owner, "__getattribute__", found)
    elif hasattr(owner, last):
        hiding = type("Hiding", (type(owner),), {"__getattribute__": found})
        monkeypatch.setattr(owner, "__class__", hiding)
    else:  # a variable in a closure
        read = inspect.getclosurevars

        def without(function):
            found = read(function)
            rest = {key: value for key, value in found.nonlocals.items() if key != last}
            return found._replace(nonlocals=rest)

        monkeypatch.setattr(inspect, "getclosurevars", without)


class TracesAgain(keras.callbacks.Callback):
    """Has a function of user code traced twice."""

    def on_epoch_end(self, epoch, logs=None):
        double = tf.function(lambda number: 2 * number)
        double(1), double(2)


def batches(count):
    parts = [each.reshape(count, BATCH, -1) for each in arrays(count)]
    spec = tf.TensorSpec((BATCH, FEATURES)), tf.TensorSpec((BATCH, 1))

    def slowly():
        for batch in zip(*parts, strict=True):
            time.sleep(0.03)  # so that steps wait for some, also on a busy machine
            yield batch

    made = tf.data.Dataset.from_generator(slowly, output_signature=spec)
    return made.map(lambda x, y: (2.0 * x, y))


def trained(*callbacks):
    """History and weights of a short fit, and the operations of its step."""
    keras.utils.set_random_seed(3)
    optimizer = keras.optimizers.SGD(0.01, gradient_accumulation_steps=2)
    model = small_model(optimizer=optimizer)
    data = {"x": batches(24), "validation_data": batches(2), "epochs": 2, "verbose": 0}
    history = model.fit(**data, callbacks=[*callbacks, TracesAgain()]).history
    return history, [each.numpy() for each in model.weights], model


def watched():
    for remembers in (compilations._definitions, operation_kernels):
        remembers.cache_clear()
    monitor = gpukit.Monitor(None, verbose=0, predict_memory=True)
    history, weights, model = trained(monitor)
    record = to_dict(monitor.summary)
    for part in ("verdict", "series", "utilization"):  # of other readings, or of the machine's
        del record[part]
    record["flops"] = to_dict(flops_of_step(model, BATCH))
    return history, weights, record


@pytest.fixture(scope="module")
def intact():
    unwatched = trained()
    history, weights, record = watched()
    assert history == unwatched[0]
    return history, weights, record


def lost(before, after, path=""):
    """Yields the fields that are now zero or empty in a record, where it gives no reason."""
    reasons = [key for key in after if key.endswith("_because") and key != "balanced_because"]
    if any(after[key] not in (None, before.get(key)) for key in reasons):
        return
    for key, value in before.items():
        now = after.get(key)
        if isinstance(value, dict) and isinstance(now, dict) and value and now:
            yield from lost(value, now, f"{path}{key}.")
        elif value and now is not None and not now and not isinstance(now, bool):
            yield f"{path}{key}"


@pytest.mark.parametrize("name", LONG_EXCEPT_FEW)
def test_without_a_private_name_training_is_the_same_and_nothing_unknown_is_zero(
    name, intact, monkeypatch
):
    hide(monkeypatch, name)
    history, weights, record = watched()
    assert history == intact[0]
    assert all(np.array_equal(*pair) for pair in zip(weights, intact[1], strict=True))
    assert [each for each in lost(intact[2], record) if not each.endswith(VARYING)] == []
    part, field, reason = SAID.get(name.rpartition(":")[2], ("environment", "worker", None))
    said = functools.reduce(dict.get, part.split("."), record)[field]
    assert said is None if reason is None else reason in said
