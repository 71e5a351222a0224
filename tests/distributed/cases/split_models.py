"""Trains models whole and split over logical CPUs; prints what the test checks, as JSON."""

import collections
import json
import re
import tempfile
from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.eager import context

import keras_gpukit
from keras_gpukit import split_model

layers = keras.layers
rng = np.random.default_rng(0)
X = rng.normal(size=(48, 8)).astype("float32")
Y = X.sum(axis=1, keepdims=True)
DEVICES = ["/CPU:0", "/CPU:1", "/CPU:2", "/CPU:3"]


def plain():
    first = flow = keras.Input((8,))
    for index in range(3):
        flow = layers.Dense(16, "relu", use_bias=False, name=f"dense{index}")(flow)
    return keras.Model(first, layers.Dense(1)(flow))


def residual():
    first = keras.Input((8,))
    flow = layers.Dense(16, name="stem")(first)
    for index in range(4):
        branch = layers.Dense(16, "relu", use_bias=False, name=f"dense{index}")(flow)
        # One sum is a layer, the next an operation without a name of its own.
        flow = flow + branch if index % 2 else layers.Add(name=f"add{index}")([flow, branch])
    return keras.Model(first, layers.Dense(1)(flow))


def nested():
    inside = [layers.Dense(16, "relu", use_bias=False, name=f"dense{i}") for i in range(3)]
    backbone = keras.Sequential([keras.Input((8,)), *inside], name="backbone")
    first = keras.Input((8,))
    return keras.Model(first, layers.Dense(1, name="head")(backbone(first)))


def random_and_running():
    first = [keras.Input((8,)), layers.Dense(16), layers.BatchNormalization(), layers.Dropout(0.4)]
    return keras.Sequential(
        [*first, layers.Dense(16), layers.Dropout(0.4, seed=3), layers.Dense(1)]
    )


def recurrent():
    first = layers.SimpleRNN(8, return_sequences=True, use_bias=False)
    second = layers.SimpleRNN(8, use_bias=False)
    return keras.Sequential(
        [keras.Input((8,)), layers.Reshape((4, 2)), first, second, layers.Dense(1)]
    )


def shared_with_two_ends():
    left, right = keras.Input((8,)), keras.Input((8,))
    shared, between = layers.Dense(8, name="shared"), layers.Dense(8)
    joined = layers.Concatenate()([shared(between(shared(left))), shared(right)])
    deeper = layers.Dense(4)(joined)
    return keras.Model([left, right], [layers.Dense(1)(joined), layers.Dense(1)(deeper)])


def fit(model, callbacks=()):
    inputs, targets = ([X, X[::-1]], [Y, Y]) if len(model.inputs) > 1 else (X, Y)
    return model.fit(
        inputs, targets, batch_size=16, epochs=2, shuffle=False, verbose=0, callbacks=[*callbacks]
    ).history["loss"]


def sends(train):
    """What the step sends: the tensor's name and its two ends."""
    runtime = context.context()
    runtime.enable_graph_collection()
    train()
    graphs = runtime.export_run_metadata().function_graphs
    runtime.disable_graph_collection()
    step = max(graphs, key=lambda each: each.ByteSize())
    nodes = [node for part in step.partition_graphs for node in part.node if node.op == "_Send"]
    ends = lambda node, key: node.attr[key].s.decode().rpartition("device:")[2]  # noqa: E731
    return [
        (node.attr["tensor_name"].s.decode(), ends(node, "send_device"), ends(node, "recv_device"))
        for node in nodes
    ]


def compared(make, count, optimizer=lambda: keras.optimizers.SGD(0.01, momentum=0.9)):
    """Compares one model in one place with the same over a number of devices."""
    keras.utils.set_random_seed(1)
    model = make()
    split = split_model(model, DEVICES[:count], batch=16, verbose=False)
    model.compile(optimizer(), "mse", jit_compile=False)
    whole = fit(model)
    split.compile(optimizer(), "mse", jit_compile=False)
    losses: list[float] = []
    sent = sends(lambda: losses.extend(fit(split)))
    return {"whole": whole, "split": losses, **described(model, split, sent)}


def described(model, split, sent):
    # What was computed in the model, forward or backward, has its name. AddN sums gradients.
    of_model = re.compile(rf"{model.name}(_\d+)?/|AddN")
    tensors = [each for each in sent if of_model.search(each[0])]
    return {
        "weights_equal": all(
            np.allclose(*pair, rtol=1e-5, atol=1e-6)
            for pair in zip(model.get_weights(), split.get_weights(), strict=True)
        ),
        "tensors": sorted({(source, target) for _, source, target in tensors}),
        "tensor_count": len(tensors),
        "sent": len(sent),
        "crossings": [(each.from_device, each.to_device) for each in split.split.crossings],
        "stages": [each.layers for each in split.split.stages],
        "memory": [each.memory_bytes for each in split.split.stages],
        "optimizer_devices": collections.Counter(map(short, split.optimizer.variables)),
        "variables_where_planned": all(
            "/" + short(variable) == split.split.device_of[name]
            for name, layer in named(split)
            for variable in layer.variables
        ),
    }


def named(model, prefix=""):
    for layer in model.layers:
        if isinstance(layer, keras.Model):
            yield from named(layer, f"{prefix}{layer.name}/")
        elif layer.variables:
            yield prefix + layer.name, layer


def short(variable):
    return variable.value.device.rpartition("device:")[2]


def as_ever():
    """A split model in `fit` with callbacks, saved, loaded, and split again."""
    keras.utils.set_random_seed(1)
    model = plain()
    model.compile(keras.optimizers.SGD(0.01, momentum=0.9), "mse", jit_compile=True)
    fit(model)
    split = split_model(model, ["cpu:0", "CPU:1"], boundaries=["dense2"], verbose=False)
    iterations = int(split.optimizer.iterations.numpy())
    with tempfile.TemporaryDirectory() as folder:
        monitor = keras_gpukit.Monitor(None, verbose=False)
        checkpoint = keras.callbacks.ModelCheckpoint(str(Path(folder, "best.keras")))
        whole, losses = fit(model), fit(split, [monitor, checkpoint])
        file = Path(folder, "saved.keras")
        split.save(file)
        loaded = keras.models.load_model(file)
        best = keras.models.load_model(Path(folder, "best.keras"))
    predicted = np.abs(split.predict(X, verbose=0) - loaded.predict(X, verbose=0)).max()
    evaluated = [each.evaluate(X, Y, verbose=0) for each in (split, loaded, best)]
    further = [fit(split, [placement := keras_gpukit.DevicePlacement(None)]), fit(loaded)]
    with pytest.raises(ValueError, match="one device"):
        split.compile("adam", "mse", jit_compile=True)
    return {
        "iterations": iterations,
        "whole": whole,
        "split": losses,
        "evaluated": evaluated,
        "prediction_difference": float(predicted),
        "loaded_is": [type(loaded) is type(model), hasattr(loaded, "split")],
        "loaded_on": sorted({short(each) for each in loaded.variables}),
        "further": further,
        "operations": monitor.summary.placement,
        "transfers": [placement.summary.transfers, placement.summary.transfers_between],
    }


def main() -> None:
    (cpu,) = tf.config.list_physical_devices("CPU")
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 4)
    on_four, on_two = (residual, nested), (random_and_running, recurrent, shared_with_two_ends)
    found = {make.__name__: compared(make, 4) for make in on_four}
    found |= {make.__name__: compared(make, 2) for make in on_two}
    adam_w = keras.optimizers.AdamW
    found["AdamW"] = compared(plain, 2, lambda: adam_w(0.01, global_clipnorm=1, use_ema=True))
    keras.config.set_dtype_policy("mixed_float16")
    found["mixed"] = compared(plain, 2, lambda: adam_w(gradient_accumulation_steps=2))
    keras.config.set_dtype_policy("float32")
    found["as ever"] = as_ever()
    print(json.dumps(found))


if __name__ == "__main__":
    main()
