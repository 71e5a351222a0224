"""Losses and weights of real fits: where a NaN began, and whether weights change."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_gpukit as gpukit
from keras_gpukit.records import NonFinite

X = np.linspace(-1, 1, 96, dtype="float32").reshape(24, 4)
Y = X.sum(-1, keepdims=True)


def watched(model, x=X, y=Y, optimizer="adam", epochs=1, spe=1, also=(), **fit):
    if not model.compiled:
        model.compile(optimizer, "mse", steps_per_execution=spe)
    monitor = gpukit.Monitor(None, verbose=0)
    fit = {"batch_size": 2, "shuffle": False, **fit}
    model.fit(x, y, epochs=epochs, verbose=0, callbacks=[monitor, *also], **fit)
    return monitor.summary


def dense(kind=keras.Sequential, **last):
    return kind([keras.Input((4,)), keras.layers.Dense(1, **last)])


@pytest.mark.parametrize(("spe", "first", "last"), [(1, 17, 17), (4, 17, 20)])
def test_the_step_at_which_a_loss_became_nan_is_named(spe, first, last):
    x, y = np.tile(X, (3, 1)), np.tile(Y, (3, 1))
    x[33] = np.nan  # the fifth batch of the second epoch
    data = tf.data.Dataset.from_tensor_slices((x, y)).batch(2)
    fit = {"epochs": 3, "steps_per_epoch": 12, "batch_size": None}
    summary = watched(dense(), data, None, spe=spe, **fit)
    assert summary.learning.non_finite == NonFinite("loss", "NaN", 2, first, last)
    assert summary.learning.finite is False
    assert summary.findings[0].code == "loss-not-finite"


class Recovers(keras.Sequential):
    """Reports an infinite loss in its first epoch, and none in later ones."""

    def train_step(self, data):
        logs = super().train_step(data)
        return {**logs, "extra_loss": tf.where(self.optimizer.iterations.value <= 12, np.inf, 0.5)}


def test_a_loss_that_recovers_and_weights_that_change_are_healthy():
    summary = watched(dense(Recovers), epochs=3)
    assert summary.learning.non_finite is None
    assert summary.learning.changed is True
    assert {"loss-not-finite", "not-learning"} <= set(summary.verdict.passed)


class NeverApplies(keras.Sequential):
    def train_step(self, data):
        self.optimizer.build(self.trainable_variables)
        return {"loss": self.compute_loss(data[0], data[1], self(data[0]))}


@pytest.mark.filterwarnings("ignore")  # Keras warns of some of these causes, too
@pytest.mark.parametrize(
    ("make", "rate", "why"),
    [
        (dense, 0.0, "the learning rate is 0"),
        (lambda: dense(trainable=False), 0.1, "none is trainable"),
        (lambda: dense(NeverApplies), 0.1, "the optimizer applied no update"),
        (lambda: dense(activation="softmax"), 0.1, "every gradient is 0"),
    ],
)
def test_weights_that_never_change_are_named_with_the_cause(make, rate, why):
    (first, *_) = watched(make(), optimizer=keras.optimizers.SGD(rate)).findings
    assert first.title == f"No weight has changed in 11 steps: {why}"


@pytest.mark.parametrize(("rows", "code"), [(None, "not-learning"), ([3], None)])
def test_loss_scaling_that_skips_every_update_is_named_and_a_few_are_healthy(rows, code):
    """Gradients of a root of 0 are not finite, while the loss is."""

    class Root(keras.layers.Layer):
        def call(self, x):
            return keras.ops.sqrt(keras.ops.maximum(x, 0))

    hidden = keras.layers.Dense(2, use_bias=False)
    model = keras.Sequential([keras.Input((4,)), hidden, Root(), keras.layers.Dense(1)])
    for layer in model.layers:
        layer.dtype_policy = keras.DTypePolicy("mixed_float16")
    model.compile(keras.optimizers.LossScaleOptimizer(keras.optimizers.Adam()), "mse")
    x = np.abs(X) + 1
    hidden.set_weights([np.ones((4, 2), "float32")])
    x[slice(None) if rows is None else rows] = 0
    summary = watched(model, x, epochs=3)
    dead = [each for each in summary.findings if each.code in ("not-learning", "loss-not-finite")]
    assert [each.code for each in dead] == ([] if code is None else [code])
    if code:
        assert dead[0].title.endswith("loss scaling skipped every update")


class StopsInEpoch(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        self.model.stop_training = batch == 4


@pytest.mark.filterwarnings("ignore")  # Keras says that the input ran out of data
@pytest.mark.parametrize(
    ("repeats", "callbacks", "cut_short", "missing"),
    [(1, [], 2, 8), (None, [], 0, 0), (None, [StopsInEpoch()], 0, 0)],
)
@pytest.mark.parametrize("spe", [1, 2])
def test_epochs_whose_data_run_out_are_counted(spe, repeats, callbacks, cut_short, missing):
    """The epoch after one that the data cut short starts from their beginning: 8 steps, 4, 8, 4."""
    data = tf.data.Dataset.from_tensor_slices((X, Y)).batch(2).repeat(repeats)
    fit = {"batch_size": None, "steps_per_epoch": 8}
    learning = watched(dense(), data, None, epochs=4, spe=spe, also=callbacks, **fit).learning
    assert (learning.cut_short, learning.steps_missing) == (cut_short, missing)
    assert learning.steps_asked == 8
