"""How far the examples that `fit` gets are padding, of models that embed them."""

import keras
import numpy as np
import pytest

import keras_gpukit as gpukit
from keras_gpukit.records import Padding


def texts(at_end):
    """A thousand texts of 40 numbers with 1 to 8 words, but for one of 30."""
    x = np.zeros((1000, 40), "int32")
    for number, row in enumerate(x):
        length = 30 if number == 500 else 1 + number % 8
        row[:length] = 1
    return x if at_end else x[:, ::-1]


def padding_of(x, embeds=True):
    layers = [keras.layers.Embedding(5, 2)] if embeds else [keras.layers.Rescaling(1.0)]
    layers += [keras.layers.Flatten(), keras.layers.Dense(1)]
    model = keras.Sequential([keras.Input((40,)), *layers])
    model.compile("sgd", "mse", jit_compile=False)
    monitor = gpukit.Monitor(None, verbose=0)
    model.fit(x, np.ones((1000, 1)), batch_size=500, verbose=0, callbacks=[monitor])
    return monitor.summary.environment.padding


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
