"""What Keras' first steps and XLA do, on a CPU: a step interrupted, and steps of new shapes."""

from __future__ import annotations

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_gpukit as gpukit


def padded(lengths):
    def batches():
        for length in lengths:
            yield np.zeros((4, length, 8), "float32"), np.zeros((4, 1), "float32")

    shapes = (tf.TensorSpec((None, None, 8)), tf.TensorSpec((None, 1)))
    return tf.data.Dataset.from_generator(batches, output_signature=shapes)


def model(**options):
    layers = [keras.layers.Conv1D(16, 3), keras.layers.GlobalMaxPooling1D(), keras.layers.Dense(1)]
    made = keras.Sequential([keras.Input((None, 8)), *layers])
    made.compile("adam", "mse", **options)
    return made


def found_by(monitor):
    return [each for each in monitor.summary.findings if each.code == "tracing-again"]


@pytest.mark.slow
def test_steps_that_xla_compiles_for_new_shapes_are_counted():
    monitor = gpukit.Monitor(None, verbose=0)
    # The first step, which traces, does not count, and the second has the same shape.
    dataset = padded([20, 20, *range(21, 25), *[20] * 120])
    model(jit_compile=True).fit(dataset, callbacks=[monitor], verbose=0)
    (found,) = found_by(monitor)
    assert "(None, None, 8)" in found.title
    figures = {figure.name: figure.value for figure in found.evidence}
    assert figures["likely compiled again"] == 4


def test_shapes_that_vary_without_xla_are_recorded_and_no_finding():
    monitor = gpukit.Monitor(None, verbose=0)
    model(jit_compile=False).fit(padded(range(20, 40)), callbacks=[monitor], verbose=0)
    assert monitor.summary.input.open_shapes == ("(None, None, 8)",)
    assert found_by(monitor) == []


def test_a_run_interrupted_in_its_first_step_says_how_long_that_took():
    class Interrupts(keras.layers.Layer):
        def call(self, inputs):
            raise KeyboardInterrupt  # while the model is traced

    made = keras.Sequential([Interrupts()])
    made.compile("sgd", "mse")
    monitor = gpukit.Monitor(None, verbose=0)
    with pytest.raises(KeyboardInterrupt):
        made.fit(np.zeros((4, 2)), np.zeros((4, 2)), callbacks=[monitor], verbose=0)
    assert monitor.summary.first_step_s > 0
    made = model()
    made.fit(padded([20, 20, 20]), callbacks=[monitor], verbose=0)
    assert monitor.summary.first_step_s is None
