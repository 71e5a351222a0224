"""The operations of a step, counted by hand and from its graph."""

from __future__ import annotations

from math import prod

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_gpukit.frameworks.tf_functions import step_graph
from keras_gpukit.profiling.flops import UnknownShapeError, count_step, flops_of

BATCH = 8
LOSS = keras.losses.SparseCategoricalCrossentropy(from_logits=True)


def counted(function, *specs, batch=BATCH):
    return count_step(tf.function(function).get_concrete_function(*specs).graph, batch)


def floats(*shape):
    return tf.TensorSpec(shape)


def fitted(layers, features=(6,), rest=0, **options):
    model = keras.Sequential([keras.Input(features), *layers, keras.layers.Dense(3)])
    model.compile("sgd", LOSS, **{"jit_compile": False, **options})
    examples = 2 * BATCH + rest
    inputs, classes = np.zeros((examples, *features), "float32"), np.zeros(examples, "int32")
    model.fit(inputs, classes, batch_size=BATCH, verbose=0)
    return model


def of_step(model, batch=BATCH):
    return count_step(step_graph(model.train_function), batch)


# A dense layer's products: forward, gradient of the weights, and gradient of the inputs.
DENSE = 2 * BATCH * (6 * 5) * 2 + 2 * BATCH * (5 * 3) * 3


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"jit_compile": True},
        {"steps_per_execution": 2},
        {"jit_compile": True, "metrics": ["acc"]},
    ],
)
def test_dense_layers_forward_and_backward(options):
    found = of_step(fitted([keras.layers.Dense(5, activation="relu")], **options))
    assert found.by_dtype == {"float32": DENSE}
    assert found.unknown_because is None
    assert "Relu" in found.uncounted
    assert "MatMul" not in found.uncounted


def test_a_custom_train_step_counts_what_it_does():
    class Twice(keras.Model):
        def train_step(self, data):
            super().train_step(data)
            return super().train_step(data)

    inputs = keras.Input((6,))
    outputs = keras.layers.Dense(3)(keras.layers.Dense(5, activation="relu")(inputs))
    model = Twice(inputs, outputs)
    model.compile("sgd", LOSS, jit_compile=False)
    model.fit(np.zeros((BATCH, 6), "float32"), np.zeros(BATCH, "int32"), verbose=0)
    assert of_step(model).total == 2 * DENSE


def test_a_convolution_forward_and_backward():
    strided = keras.layers.Conv2D(2, 3, strides=2, padding="same")
    layers = [keras.layers.Conv2D(4, 3), strided, keras.layers.GlobalAveragePooling2D()]
    first = 2 * BATCH * 6 * 6 * 4 * (3 * 3 * 3)
    second = 2 * BATCH * 3 * 3 * 2 * (3 * 3 * 4)
    found = of_step(fitted(layers, features=(8, 8, 3)))
    assert found.total == 2 * first + 3 * second + 3 * 2 * BATCH * 2 * 3


def test_attention_is_counted_by_its_products():
    length, width, heads = 7, 6, 2
    attention = keras.layers.MultiHeadAttention(heads, width)
    attention.build((None, length, width), (None, length, width))
    found = counted(lambda x: attention(x, x), floats(None, length, width))
    projections = 4 * 2 * BATCH * length * width * heads * width
    assert found.total == projections + 2 * (2 * BATCH * heads * length * length * width)


@pytest.mark.parametrize("jit", [True, False])
def test_a_dtype_of_its_own_counts_apart(jit):
    layers = [keras.layers.Dense(5, dtype="mixed_bfloat16"), keras.layers.Dense(4, dtype="float64")]
    found = of_step(fitted(layers, jit_compile=jit))
    assert found.by_dtype == {
        "bfloat16": 2 * (2 * BATCH * 6 * 5),
        "float64": 3 * (2 * BATCH * 5 * 4),
        "float32": 3 * (2 * BATCH * 4 * 3),
    }


@pytest.mark.parametrize(
    "rest", [0, 3]
)  # with a smaller last batch, the trace leaves the size open
@pytest.mark.parametrize(
    ("layer", "gates"), [(keras.layers.LSTM, 4), (keras.layers.GRU, 3), (keras.layers.SimpleRNN, 1)]
)
def test_a_recurrent_layer_counts_each_iteration_of_its_loops(layer, gates, rest):
    steps, features, units = 5, 6, 4
    found = of_step(fitted([layer(units)], features=(steps, features), rest=rest))
    inputs, states = (2 * BATCH * gates * units * each for each in (features, units))
    head = 3 * 2 * BATCH * units * 3
    # The inputs of the first layer need no gradient.
    assert found.total == steps * (2 * inputs + 3 * states) + head


@pytest.mark.parametrize(
    ("function", "shape", "batch", "because"),
    [
        (
            lambda x: tf.while_loop(lambda x: tf.reduce_sum(x) < 9.0, lambda x: [x @ x], [x]),
            (4, 4),
            BATCH,
            "how often the loop while runs",
        ),
        (
            lambda x: tf.boolean_mask(x, x[:, 0] > 0) @ tf.ones((4, 2)),
            (None, 4),
            BATCH,
            "a shape of matmul",
        ),
        (lambda x: x @ tf.ones((4, 2)), (None, 4), None, "matmul"),
    ],
    ids=["an end that depends on the data", "a size that only the data has", "the batch"],
)
def test_what_is_unknown_has_a_reason(function, shape, batch, because):
    found = counted(function, floats(*shape), batch=batch)
    assert found.total is None
    assert because in found.unknown_because.replace("MatMul", "matmul")


def test_a_function_of_the_user_is_followed_and_branches_must_agree():
    def squared(x):
        return tf.reshape(tf.matmul(x, x, transpose_b=True), (-1, 2))

    found = counted(lambda x: squared(x) @ tf.ones((2, 3)), floats(None, 4))
    assert found.total == 2 * BATCH * BATCH * 4 + 2 * (BATCH * BATCH // 2) * 2 * 3

    def either(x, other):
        return tf.cond(tf.reduce_sum(x) > 0, lambda: x @ x, other)

    known = counted(lambda x: either(x, lambda: x @ (x + 1.0)), floats(4, 4))
    assert known.total == 2 * 4**3
    found = counted(lambda x: either(x, lambda: x), floats(4, 4))
    assert "which branch of cond runs" in found.unknown_because


@pytest.mark.parametrize(
    ("type_", "inputs", "outputs", "attributes", "expected"),
    [
        ("MatMul", [(5, 3), (5, 4)], [(3, 4)], {"transpose_a": True}, 2 * 3 * 4 * 5),
        ("BatchMatMulV2", [(2, 3, 5), (5, 4)], [(2, 3, 4)], {"adj_x": False}, 2 * 2 * 3 * 4 * 5),
        ("Einsum", [(2, 3, 5), (5, 4)], [(2, 3, 4)], {"equation": b"...i,ij->...j"}, 240),
        ("Einsum", [(2, 3)], [(3, 2)], {"equation": b"ij->ji"}, 0),
        ("Conv2D", [(1, 9, 9, 4), (3, 3, 2, 8)], [(1, 7, 7, 8)], {}, 2 * 7 * 7 * 8 * 18),
        (
            "Conv3DBackpropFilterV2",
            [(1, 4, 4, 4, 2), (5,), (1, 2, 2, 2, 3)],
            [(3, 3, 3, 2, 3)],
            {},
            2 * 8 * 3 * prod((3, 3, 3, 2)),
        ),
        (
            "DepthwiseConv2dNativeBackpropInput",
            [(4,), (3, 3, 4, 2), (1, 5, 5, 8)],
            [(1, 7, 7, 4)],
            {},
            2 * 5 * 5 * 8 * 9,
        ),
        (
            "CudnnRNNV3",
            [(64, 10, 16), (64, 1, 32)],
            [(64, 10, 32)],
            {"rnn_mode": b"gru", "time_major": False},
            2 * 640 * 3 * 32 * 48,
        ),
        (
            "CudnnRNNBackpropV3",
            [(10, 64, 16), (1, 64, 32)],
            [(10, 64, 16)],
            {"rnn_mode": b"lstm", "time_major": True},
            2 * 2 * 640 * 4 * 32 * 48,
        ),
    ],
)
def test_formulas(type_, inputs, outputs, attributes, expected):
    assert flops_of(type_, inputs, outputs, attributes.__getitem__) == expected


def test_formulas_need_shapes_and_bytes_are_read_and_written_once_by_each_operation():
    with pytest.raises(UnknownShapeError):
        flops_of("Conv2D", [None, None], [(1, 2, 2, 1)], {}.__getitem__)
    found = counted(lambda x: tf.reshape(tf.nn.relu(x), (-1, 2)) @ tf.ones((2, 3)), floats(6, 4))
    relu, product = 2 * 24, 24 + 6 + 12 * 3
    assert found.moved_bytes == 4 * (relu + product)


def test_cudnn_layers_are_counted_in_a_graph():
    steps, features, units = 10, 16, 32

    def run(x, state, weights):
        lengths = tf.fill((BATCH,), steps)
        made = tf.raw_ops.CudnnRNNV3(
            input=x, input_h=state, input_c=state, params=weights, sequence_lengths=lengths,
            rnn_mode="lstm", time_major=False,
        )  # fmt: skip
        return made.output

    specs = floats(None, steps, features), floats(None, 1, units), floats(4 * units * 50)
    found = counted(run, *specs)
    assert found.total == 2 * BATCH * steps * 4 * units * (features + units)
