"""A loop over a dataset without `fit`: its waits, its stages and the machine."""

import sys

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.data.ops import iterator_ops

from keras_gpukit.monitoring.retraced_functions import RetracedFunctions
from keras_gpukit.scripts.custom_loop import OwnLoops
from keras_gpukit.scripts.eager_steps import EagerSteps


@pytest.fixture
def loops(monkeypatch):
    monkeypatch.setattr(iterator_ops.OwnedIterator, "__next__", iterator_ops.OwnedIterator.__next__)
    monkeypatch.setattr(tf.GradientTape, "gradient", tf.GradientTape.gradient)
    loops = OwnLoops()
    loops.install()
    return loops


def test_a_look_at_the_data_and_batches_that_a_library_takes_are_no_loop(loops):
    data = tf.data.Dataset.from_tensor_slices(np.zeros((40, 4), "float32")).batch(1)
    assert len(list(data.take(5))) == 5
    import keras

    keras.Sequential([keras.layers.Dense(1)]).predict(data, verbose=0)
    iterator = iter(data)

    @tf.function
    def in_a_graph():
        return next(iterator)

    for _ in range(20):
        in_a_graph()
    assert loops.summary() is None


def gradient_of(weight):
    with tf.GradientTape() as tape:
        loss = weight * weight
    return tape.gradient(loss, weight)


class Sampler:
    """Found operations that run one by one for a second, whatever the function."""

    def eager_s(self, code, since_s, until_s):
        return 1.0


def test_steps_that_run_eagerly_are_counted_by_their_function(loops):
    weight = tf.Variable(1.0)
    for _ in range(12):
        gradient_of(weight)
    for _ in range(20):
        tf.function(gradient_of)(weight)
    step = loops.eager.longest_step(Sampler())
    line = gradient_of.__code__.co_firstlineno
    assert (step.function, step.place) == (
        "gradient_of",
        f"tests/scripts/test_custom_loop.py:{line}",
    )
    assert (step.is_function, step.steps, step.eager_s) == (True, 11, 1.0)
    assert loops.summary().steps == 11
    steps = EagerSteps()
    for _ in range(12):
        steps._note(sys._getframe())
    step = steps.longest_step(Sampler())
    assert not step.is_function  # it stands within its loop
    assert step.place.startswith("tests/scripts/test_custom_loop.py:")


@tf.function
def doubled(values):
    return 2 * values


def test_two_watches_at_once_see_each_tracing():
    watches = [RetracedFunctions(), RetracedFunctions()]  # of a loop, and of a fit within it
    for each in watches:
        each.start()
    for length in (1, 2):
        doubled(tf.zeros(length))
    for each in reversed(watches):
        each.close()
    for each in watches:
        assert [(found.name, found.times) for found in each.functions()] == [("doubled", 2)]


def replicated(strategy, weight):
    strategy.run(gradient_of, (weight,))


def test_an_eager_step_in_replicas_is_the_function_that_runs_the_strategy(loops):
    strategy = tf.distribute.MirroredStrategy(["CPU:0"])
    with strategy.scope():
        weight = tf.Variable(1.0)
    for _ in range(12):
        replicated(strategy, weight)
    step = loops.eager.longest_step(Sampler())
    assert (step.function, step.steps, step.in_replicas) == ("replicated", 11, True)
    assert loops.summary().steps == 11
