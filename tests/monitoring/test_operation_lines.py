"""What belongs to no layer in a profile is divided by metric and by line of the script."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_gpukit import records
from keras_gpukit.frameworks.tf_functions import step_graph
from keras_gpukit.monitoring.operation_lines import with_lines


class Spread(keras.metrics.Metric):
    def __init__(self):
        super().__init__(name="spread")
        self.total = self.add_variable((), "zeros")

    def update_state(self, y_true, y_pred, sample_weight=None):
        self.total.assign_add(tf.math.reduce_std(y_pred))  # line of the deviation

    def result(self):
        return self.total.value


class Own(keras.Model):
    def train_step(self, data):
        x, y, _ = data
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.matmul(self(x) - y, tf.ones((1, 1))))  # line of the loss
        weights = self.trainable_variables
        self.optimizer.apply(tape.gradient(loss, weights), weights)
        hits = tf.reduce_sum(tf.math.top_k(x, k=2).values)  # line of the hits
        return {"loss": loss, "hits": hits}


def place_of(text):
    with open(__file__) as lines:
        return next(number for number, line in enumerate(lines, 1) if line.endswith(f"# {text}\n"))


def trained(model_class=keras.Model, metrics=()):
    inputs = keras.Input((4,))
    model = model_class(inputs, keras.layers.Dense(1, activation="sigmoid")(inputs))
    model.compile("sgd", "mse", metrics=list(metrics), jit_compile=False)
    model.train_on_batch(np.ones((8, 4), "float32"), np.ones((8, 1), "float32"))
    return model


def operation(name, time_s, kind="other"):
    return records.KernelProfile(f"{name}:Op", kind, 2 * time_s, 2, time_s / 0.01, None, name)


def divided(model, *operations):
    """Layers of a profile of two steps, in which operations of no layer take 10 ms a step."""
    other = records.LayerProfile(
        "other operations", "other", 0.01, 0.0, {"other": 0.01}, 30.0, largest=operations
    )
    profile = records.ProfileRecord(steps=2, step_time_s=0.02, layers=(other,))
    return {each.path: each for each in with_lines(profile, model).layers}


@pytest.fixture(scope="module")
def own():
    return trained(Own)


def test_an_operation_of_an_own_step_has_the_line_that_makes_it(own):
    layers = divided(own, operation("TopKV2", 0.006), operation("Unknown", 0.001))
    line = next(path for path in layers if path.endswith(f":{place_of('line of the hits')}"))
    found = layers[line]
    assert (found.role, found.place, found.kernels) == ("line", line, 1.0)
    assert (found.time_s, found.backward_s) == pytest.approx((0.006, 0.0))
    assert found.largest[0].share == pytest.approx(1.0)
    rest = layers["other operations"]
    assert (rest.time_s, rest.kernels) == (pytest.approx(0.004), 29.0)
    assert [each.operation for each in rest.largest] == ["Unknown"]


def test_a_gradient_has_the_line_of_what_it_is_the_gradient_of(own):
    forward = operation("MatMul", 0.002)
    backward = operation("gradient_tape/MatMul/MatMul", 0.003)
    layers = divided(own, forward, backward)
    line = next(path for path in layers if path.endswith(f":{place_of('line of the loss')}"))
    assert layers[line].backward_s == pytest.approx(0.003)
    assert layers[line].time_s == pytest.approx(0.005)


class Norm(keras.regularizers.Regularizer):
    def __call__(self, weights):
        return keras.ops.norm(weights, ord=2)  # line of the norm


def test_a_gradient_without_a_scope_has_the_line_of_what_it_computes_with():
    inputs = keras.Input((4,))
    outputs = keras.layers.Dense(2, kernel_regularizer=Norm())(inputs)
    model = keras.Model(inputs, keras.layers.Dense(1)(outputs))
    model.compile("sgd", "mse", jit_compile=False)
    model.train_on_batch(np.ones((8, 4), "float32"), np.ones((8, 1), "float32"))
    gradients = "gradient_tape/Svd", "gradient_tape/MatMul"
    found = divided(model, operation("Svd", 0.004), *(operation(each, 0.002) for each in gradients))
    place = f"test_operation_lines.py:{place_of('line of the norm')}"
    line = next(each for path, each in found.items() if path.endswith(place))
    assert (line.time_s, line.backward_s) == (pytest.approx(0.008), pytest.approx(0.004))
    model_s_own = f"gradient_tape/{model.name}/dense/MatMul"
    assert [each.role for each in divided(model, operation(model_s_own, 0.01)).values()] == [
        "other"
    ]


def test_a_loop_of_the_script_is_named_and_those_of_keras_are_none():
    def loss(y_true, y_pred):
        return tf.map_fn(tf.square, y_true - y_pred)  # line of the loop

    model = keras.Sequential([keras.Input((3, 4)), keras.layers.LSTM(1)])
    model.compile("sgd", loss, jit_compile=False)
    model.train_on_batch(np.ones((8, 3, 4), "float32"), np.ones((8, 1), "float32"))
    profile = records.ProfileRecord(steps=2, step_time_s=0.02)
    (place,) = with_lines(profile, model).loops
    assert place.endswith(f"test_operation_lines.py:{place_of('line of the loop')}")


def test_metrics_have_their_class_and_the_line_if_it_is_the_script_s():
    precision = keras.metrics.Precision(thresholds=[0.1, 0.5])
    model = trained(metrics=[precision, "mae", Spread()])
    wrapped = ("/reduction_metrics.py", "/losses/losses.py")
    files = ("/confusion_metrics.py",), wrapped, ("/compile_utils.py", __file__)
    layers = divided(model, *(operation(made_in(model, *each), 0.003) for each in files))
    assert {path: each.role for path, each in layers.items() if each.role == "metrics"} == {
        "Precision": "metrics",
        "mean_absolute_error": "metrics",
        "Spread": "metrics",
    }
    assert layers["Precision"].place is None
    assert layers["Spread"].place.endswith(f":{place_of('line of the deviation')}")


def made_in(model, *files):
    """Returns an operation of the step whose stack has these files where the training runs."""
    for each in step_graph(model.train_function).get_operations():
        lines = [f"{frame.filename}:{frame.lineno}" for frame in each.traceback]
        lines = lines[next(at for at, line in enumerate(lines) if "/keras/src/" in line) :]
        if all(any(file in line for line in lines) for file in files):
            return each.name
    raise LookupError(files)


def test_a_profile_of_a_step_that_is_not_kept_stays_as_it_is(own):
    profile = records.ProfileRecord(steps=0, layers=())
    assert with_lines(profile, own) is profile
