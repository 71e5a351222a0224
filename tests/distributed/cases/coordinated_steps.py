"""The chief of a training with parameter servers, with slow steps that a callback leaves early."""

import json
import sys
from pathlib import Path

import keras_gpukit as gpukit

folder = Path(sys.argv[1])
setup = gpukit.configure_gpus(devices="none", seed=0, verbose=False, worker_timeout_s=120)

# Only the chief comes here.
import keras  # noqa: E402
import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402
from helpers.training import (  # noqa: E402
    BATCH,
    FEATURES,
    SlowPyDataset,
    arrays,
    sleeping_model,
    slow_dataset,
    small_model,
)

x, y = arrays(8)
other_y = np.full_like(y, 100.0)
with setup.scope():
    model = sleeping_model(0.05)


def updates():
    return int(model.optimizer.iterations.numpy())


class Leaves(keras.callbacks.Callback):
    """Leaves the epoch after its second step."""

    def __init__(self, how):
        super().__init__()
        self.how, self.updates, self.evaluated = how, [], None

    def on_train_begin(self, logs=None):
        self.weights = self.model.get_weights()

    def on_train_batch_end(self, batch, logs=None):
        if batch != 1:
            return
        if self.how == "raises":
            raise KeyError("left")
        if self.how == "evaluates":
            self.evaluated = self.model.evaluate(x, other_y, batch_size=BATCH, verbose=0)
        self.model.stop_training = True

    def on_epoch_end(self, epoch, logs=None):
        self.updates.append(updates())

    def on_train_end(self, logs=None):
        self.model.set_weights(self.weights)


def left(how):
    """What is measured on other data right after, and what the same weights give."""
    callback = Leaves(how)
    try:
        history = model.fit(
            x,
            y,
            batch_size=BATCH,
            validation_data=(x, other_y),
            verbose=0,
            callbacks=[callback],
        ).history
    except KeyError:
        history = {}
    measured = model.evaluate(x, other_y, batch_size=BATCH, verbose=0)
    return {
        "measured": [*history.get("val_loss", ()), callback.evaluated or measured, measured],
        "updates": [*callback.updates, updates()],
        "weights": [weight.tolist() for weight in callback.weights],
        "weights after": [weight.tolist() for weight in model.get_weights()],
    }


class Batches(keras.metrics.Metric):
    """Counts batches."""

    def __init__(self):
        super().__init__(name="batches")
        self.count = self.add_variable((), "zeros", name="count")

    def update_state(self, y_true, y_pred, sample_weight=None):
        self.count.assign_add(1.0)

    def result(self):
        return self.count


def executions():
    """Batches in each epoch where its steps are no whole number of executions."""
    with setup.scope():
        counted = keras.Sequential([keras.Input((FEATURES,)), keras.layers.Dense(1)])
        counted.compile("sgd", "mse", metrics=[Batches()], steps_per_execution=2)
    data = tf.data.Dataset.from_tensor_slices((x, y)).batch(BATCH).repeat()
    return counted.fit(data, steps_per_epoch=5, epochs=3, verbose=0).history["batches"]


def outputs():
    """Losses of two outputs with an uneven last batch, by workers and by this process alone."""

    def build():
        keras.utils.set_random_seed(1)
        inputs = keras.Input((FEATURES,))
        named = {name: keras.layers.Dense(1, name=name)(inputs) for name in "ab"}
        several = keras.Model(inputs, named)
        several.compile("sgd", {"a": "mae", "b": "mse"})
        return several

    with setup.scope():
        models = [build()]
    models.append(build())
    targets = {"a": y, "b": y}
    return [
        each.evaluate(x, targets, batch_size=24, verbose=0, return_dict=True) for each in models
    ]


def stall(data):
    with setup.scope():
        watched = small_model()
    callback = gpukit.InputStall(None)
    watched.fit(data, epochs=2, verbose=0, callbacks=[callback])
    return [callback.summary.confidence, callback.summary.stall_fraction]


def own_batches():
    """The sum of each epoch's batches from a `PyDataset` with workers."""

    class Numbers(SlowPyDataset):
        def __getitem__(self, index):
            inputs, targets = super().__getitem__(index)
            return inputs, np.full_like(targets, 10.0**index)

    with setup.scope():
        summing = keras.Sequential([keras.Input((FEATURES,)), keras.layers.Dense(1)])
        summing.compile(keras.optimizers.SGD(0.0), lambda y_true, y_pred: y_true + 0.0 * y_pred)
    history = summing.fit(Numbers(4, 0.0, workers=2), epochs=3, verbose=0).history["loss"]
    return [round(4 * loss) for loss in history]


results = {
    "left": {how: left(how) for how in ("stops", "raises", "evaluates")},
    "executions": executions(),
    "outputs": outputs(),
    "stall": stall(slow_dataset(8, 0.03)),
    "own batches": own_batches(),
}
(folder / "results.json").write_text(json.dumps(results))
