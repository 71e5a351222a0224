"""What is not trained at a model's start, and how far what it embeds is padding."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from helpers.training import FEATURES, compiled, small_model, summary_of

from keras_gpukit.monitoring.environment import read_environment
from keras_gpukit.records import FrozenLayers, Padding

layers = keras.layers


# Frozen layers


def frozen_of(*first, arrays=True):
    """What is known of a model of some layers and one that is trained."""
    data = np.ones((8, FEATURES), "float32"), np.ones((8, 1), "float32")
    given = data if arrays else (tf.data.Dataset.from_tensor_slices(data).batch(4),)
    return summary_of(compiled(*first, layers.Dense(1)), *given).environment.frozen


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

    model = Own()
    model.compile("sgd", "mse", jit_compile=False)
    summary = summary_of(model, np.ones((8, FEATURES)), np.ones((8, 1)))
    assert summary.environment.frozen is None


# Padding


def texts(at_end):
    """A thousand texts of 40 numbers with 1 to 8 words, but for one of 30."""
    x = np.zeros((1000, 40), "int32")
    for number, row in enumerate(x):
        length = 30 if number == 500 else 1 + number % 8
        row[:length] = 1
    return x if at_end else x[:, ::-1]


def padding_of(x, embeds=True):
    first = layers.Embedding(5, 2) if embeds else layers.Rescaling(1.0)
    model = compiled(first, layers.Flatten(), layers.Dense(1), shape=(40,))
    return summary_of(model, x, np.ones((1000, 1)), batch_size=500).environment.padding


@pytest.mark.parametrize("at_end", [True, False])
def test_the_zeros_at_one_end_are_padding(at_end):
    assert padding_of(texts(at_end)) == Padding(40, pytest.approx(4.525, abs=0.01), 8)


def test_zeros_within_an_example_are_not():
    x = texts(at_end=True)
    x[:, -1] = 1
    assert padding_of(x) == Padding(40, 40.0, 40)


def test_of_other_data_it_is_unknown():
    assert padding_of(texts(at_end=True), embeds=False) is None
    assert padding_of(texts(at_end=True).astype("float32")) is None
