"""Which layers at a model's start are not trained."""

import keras
import numpy as np
import pytest
from helpers.training import FEATURES, small_model

import keras_gpukit as gpukit
from keras_gpukit.monitoring.environment import read_environment
from keras_gpukit.records import FrozenLayers

layers = keras.layers


def frozen_of(*first, arrays=True):
    """What is known of a model of some layers and one that is trained."""
    model = keras.Sequential([keras.Input((FEATURES,)), *first, layers.Dense(1)])
    model.compile("sgd", "mse", jit_compile=False)
    x, y = np.ones((8, FEATURES), "float32"), np.ones((8, 1), "float32")
    data = (x, y) if arrays else (small_batches(x, y),)
    monitor = gpukit.Monitor(None, verbose=0)
    model.fit(*data, verbose=0, callbacks=[monitor])
    return monitor.summary.environment.frozen


def small_batches(x, y):
    import tensorflow as tf

    return tf.data.Dataset.from_tensor_slices((x, y)).batch(4)


def backbone(*more):
    model = keras.Sequential([keras.Input((FEATURES,)), layers.Dense(4), *more], name="backbone")
    model.trainable = False
    return model


@pytest.mark.parametrize("arrays", [True, False])
def test_a_frozen_model_and_what_follows_up_to_a_trained_layer(arrays):
    first = layers.Rescaling(2.0, name="scale"), backbone(), layers.ReLU(name="relu")
    expected = FrozenLayers(("scale", "backbone", "relu"), arrays)
    assert frozen_of(*first, arrays=arrays) == expected


def test_of_a_functional_model_the_input_is_no_layer():
    inputs = keras.Input((FEATURES,))
    model = keras.Model(inputs, layers.Dense(1)(backbone()(inputs)))
    assert read_environment(model).frozen == FrozenLayers(("backbone",), False)


@pytest.mark.parametrize(
    "first",
    [
        (),
        (layers.Dropout(0.5), backbone()),
        (backbone(layers.Dropout(0.5)),),
        (layers.Dense(FEATURES), backbone()),
        (layers.Rescaling(2.0),),
    ],
    ids=["none", "drawn before", "drawn within", "trained before", "no weights"],
)
def test_what_differs_between_epochs_or_is_trained_is_not(first):
    assert frozen_of(*first) is None


def test_layers_of_one_s_own_class_of_model_are_in_no_known_order():
    class Own(keras.Model):
        def __init__(self):
            super().__init__()
            self.inner = small_model()
            self.inner.trainable = False
            self.head = layers.Dense(1)

        def call(self, inputs):
            return self.head(self.inner(inputs))

    model, monitor = Own(), gpukit.Monitor(None, verbose=0)
    model.compile("sgd", "mse", jit_compile=False)
    model.fit(np.ones((8, FEATURES)), np.ones((8, 1)), verbose=0, callbacks=[monitor])
    assert monitor.summary.environment.frozen is None
