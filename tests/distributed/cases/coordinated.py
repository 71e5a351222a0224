"""One process of a training with parameter servers; the chief writes what came of it.

    python coordinated.py FOLDER worker|server|steps

A task of that role is killed while it trains, or there are steps that a callback leaves early, and
what else is only of coordinators.
"""

import json
import sys
import time
from contextlib import suppress
from pathlib import Path

import keras_gpukit as gpukit
from keras_gpukit.errors import WorkerError

folder, killed = Path(sys.argv[1]), sys.argv[2]
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
    fast_dataset,
    sleeping_model,
    slow_dataset,
    small_model,
)
from tensorflow.python.distribute.coordinator.values import RemoteValueImpl  # noqa: E402

x, y = arrays(8)
other_y = np.full_like(y, 100.0)


def dense():
    return keras.Sequential([keras.Input((FEATURES,)), keras.layers.Dense(1)])


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
        self.updates.append(updates(self.model))

    def on_train_end(self, logs=None):
        self.model.set_weights(self.weights)


def updates(model):
    return int(model.optimizer.iterations.numpy())


def left(model, how):
    """What is measured on other data right after, and what the same weights give."""
    callback, history = Leaves(how), {}
    options = {"batch_size": BATCH, "validation_data": (x, other_y), "verbose": 0}
    with suppress(KeyError):
        history = model.fit(x, y, callbacks=[callback], **options).history
    measured = model.evaluate(x, other_y, batch_size=BATCH, verbose=0)
    return {
        "measured": [*history.get("val_loss", ()), callback.evaluated or measured, measured],
        "updates": [*callback.updates, updates(model)],
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
        counted = dense()
        counted.compile("sgd", "mse", metrics=[Batches()], steps_per_execution=2)
    data = fast_dataset(8).repeat()
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
    options = {"batch_size": 24, "verbose": 0, "return_dict": True}
    return [each.evaluate(x, {"a": y, "b": y}, **options) for each in models]


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
        summing = dense()
        summing.compile(keras.optimizers.SGD(0.0), lambda y_true, y_pred: y_true + 0.0 * y_pred)
    history = summing.fit(Numbers(4, 0.0, workers=2), epochs=3, verbose=0).history["loss"]
    return [round(4 * loss) for loss in history]


def kill(role, index):
    """Waits until a task of the cluster has been killed."""
    (folder / "task").write_text(f"{role} {index}")
    (folder / "task").rename(folder / "kill")
    while not (folder / "killed").exists():
        time.sleep(0.01)


def kill_next_worker():
    """Has the next worker killed that has made a step, before the result is copied here."""
    copy = RemoteValueImpl._copy_to_local

    def from_killed(self):
        RemoteValueImpl._copy_to_local = copy
        device = tf.DeviceSpec.from_string(self._values["loss"].device)
        kill(device.job, device.task)
        return copy(self)

    RemoteValueImpl._copy_to_local = from_killed


class Steps(keras.callbacks.Callback):
    """Notes each step, and has a task killed in the middle of the second epoch."""

    def __init__(self):
        super().__init__()
        self.batches, self.optimizer_steps, self.epoch = [], [], 0

    def on_epoch_begin(self, epoch, logs=None):
        self.epoch = epoch
        self.optimizer_steps.append([updates(self.model)])

    def on_epoch_end(self, epoch, logs=None):
        self.optimizer_steps[-1].append(updates(self.model))

    def on_train_batch_end(self, batch, logs=None):
        self.batches.append(batch)
        if (self.epoch, batch) == (1, 3):
            kill("ps", 0) if killed == "server" else kill_next_worker()


def with_a_killed_task():
    with setup.scope():
        inputs = keras.Input((FEATURES,))
        hidden = keras.layers.Dense(8, activation="relu")(inputs)
        model = keras.Model(inputs, keras.layers.Dense(1)(hidden))
        model.compile(keras.optimizers.SGD(0.05), "mse")
        model.optimizer.build(model.trainable_variables)
    steps, monitor = Steps(), gpukit.Monitor(folder / "run")
    best = keras.callbacks.ModelCheckpoint(folder / "best.keras")
    options = {"batch_size": BATCH, "epochs": 3, "validation_data": (x, y), "verbose": 0}
    try:
        history = model.fit(x, y, callbacks=[steps, monitor, best], **options)
    except WorkerError as error:
        print("fit:", error)
        model.train_on_batch(x, y)  # names it too
    plain = keras.models.load_model(folder / "best.keras")  # the last epoch, on the chief alone
    return {
        "epochs": history.epoch,
        "history": history.history,
        "optimizer_steps": steps.optimizer_steps,
        "batches": steps.batches,
        "monitor_steps": monitor.summary.steps,
        "evaluate": model.evaluate(x, y, batch_size=32, verbose=0, return_dict=True),
        "predict": model.predict(x, batch_size=32, verbose=0).ravel().tolist(),
        "expected": {
            "loss": float(np.mean((plain(x).numpy() - y) ** 2)),
            "predict": plain(x).numpy().ravel().tolist(),
        },
    }


if killed == "steps":
    with setup.scope():
        sleeping = sleeping_model(0.05)
    results = {
        "left": {how: left(sleeping, how) for how in ("stops", "raises", "evaluates")},
        "executions": executions(),
        "outputs": outputs(),
        "stall": stall(slow_dataset(8, 0.03)),
        "own batches": own_batches(),
    }
else:
    results = with_a_killed_task()
(folder / "results.json").write_text(json.dumps(results))
