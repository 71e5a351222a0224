"""Steps that are compiled or traced again, on a CPU, and a first step that is interrupted."""

import time

import keras
import numpy as np
import pytest
import tensorflow as tf
from helpers.training import compiled, summary_of

import keras_gpukit as gpukit
from keras_gpukit.sensors.compilations import compilations


def padded(lengths):
    def batches():
        for length in lengths:
            yield np.zeros((4, length, 8), "float32"), np.zeros((4, 1), "float32")

    shapes = (tf.TensorSpec((None, None, 8)), tf.TensorSpec((None, 1)))
    return tf.data.Dataset.from_generator(batches, output_signature=shapes)


def model(**options):
    layers = keras.layers.Conv1D(16, 3), keras.layers.GlobalMaxPooling1D(), keras.layers.Dense(1)
    return compiled(*layers, shape=(None, 8), optimizer="adam", **options)


@pytest.mark.skipif(compilations() is None, reason="this TensorFlow's counters are not read")
@pytest.mark.parametrize("steps_per_execution", [1, pytest.param(3, marks=pytest.mark.long)])
def test_compilations_for_new_shapes_are_counted_and_timed(steps_per_execution):
    # The first call, which traces, does not count. The second epoch has no new shapes.
    dataset = padded([20, 20, 20, 21, 20, 22, 20, 20, 20])
    made = model(jit_compile=True, steps_per_execution=steps_per_execution)
    began_s = time.perf_counter()
    summary = summary_of(made, dataset, epochs=2)
    parts = summary.breakdown
    assert parts.compilations == 2
    assert 0 < parts.compiling_s <= parts.tracing_s < time.perf_counter() - began_s
    assert summary.input.open_shapes == ("(None, None, 8)",)


def test_without_xla_nothing_is_compiled_again():
    parts = summary_of(model(), padded(range(20, 40))).breakdown
    assert not parts.compilations
    # From Keras 3.16 on the step is traced again for another shape.
    assert (parts.tracing_s > 0) == (parts.tracings_of_shapes > 0)
    assert parts.tracings == parts.tracings_of_shapes
    assert parts.retraced == ()


def test_functions_that_eager_steps_trace_again_say_what_changed():
    @tf.function
    def scale(x, step):
        return x * float(step)

    @tf.function
    def total(x):
        return tf.reduce_sum(x)

    class Counts(keras.Sequential):
        steps = 0

        def train_step(self, data):
            self.steps += 1
            total(tf.zeros(1 + self.steps % 3))
            scale(tf.zeros(2), self.steps)

            @tf.function
            def inner():
                return tf.zeros(1)

            inner()
            return super().train_step(data)

    made = Counts([keras.Input((2,)), keras.layers.Dense(1)])
    made.compile("sgd", "mse", run_eagerly=True)
    summary = summary_of(made, np.zeros((20, 2)), np.zeros(20), batch_size=4)
    found = {each.name: each for each in summary.breakdown.retraced}
    scaled, summed = found["scale"], found["total"]
    assert (scaled.times, scaled.cause, scaled.argument) == (5, "Python value", "step")
    assert (summed.times, summed.cause, summed.argument) == (3, "shape", "x")
    assert found["inner"].cause == "made again"
    assert "test_new_shapes.py:" in scaled.location
    assert scaled.spent_s > 0


def test_a_run_interrupted_in_its_first_step_says_how_long_that_took():
    class Interrupts(keras.layers.Layer):
        def call(self, inputs):
            raise KeyboardInterrupt  # while the model is traced

    made = keras.Sequential([Interrupts()])
    made.compile("sgd", "mse", jit_compile=False)
    monitor = gpukit.Monitor(None, verbose=0)
    with pytest.raises(KeyboardInterrupt):
        made.fit(np.zeros((4, 2)), np.zeros((4, 2)), callbacks=[monitor], verbose=0)
    assert monitor.summary.first_step_s > 0
    made = model()
    made.fit(padded([20, 20, 20]), callbacks=[monitor], verbose=0)
    assert monitor.summary.first_step_s is None
