"""Calls of a model in a step that repeat others, from real graphs and made-up times."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_gpukit import records
from keras_gpukit.frameworks.tf_functions import step_graph
from keras_gpukit.layer_names import is_backward
from keras_gpukit.monitoring.repeated_calls import with_repeats


class Scored(keras.Model):
    """A model with a training step of its own, of which each test has another."""

    def __init__(self, *layers):
        super().__init__()
        self.inner = keras.Sequential([keras.layers.Dense(3), *layers, keras.layers.Dense(1)])

    def call(self, x, training=False):
        return self.inner(x, training=training)

    def train_step(self, data):
        x, y, _ = data
        return {"loss": self.loss_of(x, y)}

    def loss_of(self, x, y):
        raise NotImplementedError

    def update(self, x, y):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(self(x, training=True) - y))
        weights = self.trainable_variables
        self.optimizer.apply(tape.gradient(loss, weights), weights)
        return loss


class OneForEachLoss(Scored):
    def loss_of(self, x, y):
        weights, gradients = self.trainable_variables, []
        for factor in (1.0, 0.5, 0.1):
            with tf.GradientTape() as tape:
                loss = factor * tf.reduce_mean(tf.square(self(x, training=True) - y))  # the calls
            gradients.append(tape.gradient(loss, weights))
        summed = [tf.add_n(each) for each in zip(*gradients, strict=True)]
        self.optimizer.apply(summed, weights)
        return loss


class AgainForMetrics(Scored):
    def loss_of(self, x, y):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(self(x, training=True) - y))
        hits = tf.reduce_mean(self(x, training=False))
        weights = self.trainable_variables
        self.optimizer.apply(tape.gradient(loss, weights), weights)
        return loss + hits


class OtherData(Scored):
    def loss_of(self, x, y):
        return self.update(x, y) + tf.reduce_mean(self(x + 1.0))


class OtherWeights(Scored):
    def loss_of(self, x, y):
        return self.update(x, y) + self.update(x, y)


class DrawnAtRandom(Scored):
    def loss_of(self, x, y):
        views = [x + tf.random.normal(tf.shape(x)) for _ in range(2)]
        return self.update(views[0], y) + tf.reduce_mean(self(views[1]))


def repeats_of(model, ran=lambda operation: True):
    """The repeated calls of a step in which each operation that runs takes a millisecond."""
    model.compile("sgd", "mse", jit_compile=False)
    model.train_on_batch(np.ones((8, 4), "float32"), np.ones((8, 1), "float32"))
    layers = [
        records.LayerProfile(
            operation.name.removeprefix("gradient_tape/").rpartition("/")[0],
            "layer",
            0.001,
            0.001 * is_backward(operation.name),
            {"matmul": 0.001},
            1.0,
            largest=(
                records.KernelProfile("MatMul", "matmul", 0.001, 1, 1.0, None, operation.name),
            ),
        )
        for operation in step_graph(model.train_function).get_operations()
        if operation.type == "MatMul" and ran(operation)
    ]
    profile = records.ProfileRecord(steps=1, step_time_s=0.02, layers=tuple(layers))
    return with_repeats(profile, model).repeats


def line_of(text):
    with open(__file__) as lines:
        return next(number for number, line in enumerate(lines, 1) if line.endswith(f"# {text}\n"))


def test_a_call_with_a_gradient_for_each_loss_repeats_all_but_the_first():
    (found,) = repeats_of(OneForEachLoss(keras.layers.Dropout(0.5)))
    assert (found.name, found.calls) == ("one_for_each_loss", 3)
    assert found.places == (f"tests/monitoring/test_repeated_calls.py:{line_of('the calls')}",)
    # Two products forwards and three backwards in each call, of which two repeat the first.
    assert found.again_s == pytest.approx(2 * 0.005)


def test_a_second_call_for_metrics_repeats_no_gradient():
    (found,) = repeats_of(AgainForMetrics())
    assert found.calls == 2
    assert found.again_s == pytest.approx(0.002)


@pytest.mark.parametrize("model_class", [OtherData, OtherWeights, DrawnAtRandom])
def test_calls_on_other_data_or_with_other_weights_repeat_nothing(model_class):
    assert repeats_of(model_class()) == ()


def test_a_call_that_did_not_run_repeats_nothing():
    first = set()

    def ran(operation):
        scope = operation.name.removeprefix("gradient_tape/").partition("/")[0]
        first.add(scope)
        return scope == min(first)

    assert repeats_of(AgainForMetrics(), ran) == ()


def test_a_layer_that_a_model_calls_twice_on_its_input_is_named():
    inputs = keras.Input((4,))
    dense = keras.layers.Dense(3, name="shared")
    model = keras.Model(
        inputs, keras.layers.Dense(1)(dense(inputs) + keras.ops.relu(dense(inputs)))
    )
    (found,) = repeats_of(model)
    assert (found.name, found.calls) == ("shared", 2)
