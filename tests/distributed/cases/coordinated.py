"""One process of a training with parameter servers; the chief writes what came of it."""

import json
import sys
import time
from pathlib import Path

import keras_gpukit as gpukit
from keras_gpukit.errors import WorkerError

folder, killed = Path(sys.argv[1]), sys.argv[2]
setup = gpukit.configure_gpus(devices="none", seed=0, verbose=False, worker_timeout_s=120)

# Only the chief comes here.
import keras  # noqa: E402
import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402
from tensorflow.python.distribute.coordinator.values import RemoteValueImpl  # noqa: E402

random = np.random.default_rng(0)
x = random.normal(size=(64, 5)).astype("float32")
y = (x @ random.normal(size=(5, 1))).astype("float32")


def build():
    inputs = keras.Input((5,))
    hidden = keras.layers.Dense(8, activation="relu")(inputs)
    model = keras.Model(inputs, keras.layers.Dense(1)(hidden))
    model.compile(keras.optimizers.SGD(0.05), "mse")
    return model


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
        self.optimizer_steps.append([self.made()])

    def on_epoch_end(self, epoch, logs=None):
        self.optimizer_steps[-1].append(self.made())

    def on_train_batch_end(self, batch, logs=None):
        self.batches.append(batch)
        if (self.epoch, batch) == (1, 3):
            kill("ps", 0) if killed == "server" else kill_next_worker()

    def made(self):
        return int(self.model.optimizer.iterations.numpy())


with setup.scope():
    model = build()
    model.optimizer.build(model.trainable_variables)
steps, monitor = Steps(), gpukit.Monitor(folder / "run")
try:
    history = model.fit(
        x,
        y,
        batch_size=8,
        epochs=3,
        validation_data=(x, y),
        verbose=0,
        callbacks=[steps, monitor, keras.callbacks.ModelCheckpoint(folder / "best.keras")],
    )
except WorkerError as error:
    print("fit:", error)
    model.train_on_batch(x, y)  # names it too
evaluated = model.evaluate(x, y, batch_size=16, verbose=0, return_dict=True)
predicted = model.predict(x, batch_size=16, verbose=0)
plain = keras.models.load_model(folder / "best.keras")  # the last epoch, on the chief alone
results = {
    "epochs": history.epoch,
    "loss": history.history["loss"],
    "history": history.history,
    "optimizer_steps": steps.optimizer_steps,
    "batches": steps.batches,
    "monitor_steps": monitor.summary.steps,
    "evaluate": evaluated,
    "predict": predicted.ravel().tolist(),
    "expected": {
        "loss": float(np.mean((plain(x).numpy() - y) ** 2)),
        "predict": plain(x).numpy().ravel().tolist(),
    },
    "files": sorted(path.name for path in folder.iterdir()),
}
(folder / "results.json").write_text(json.dumps(results))
