"""One process of a training: fits, evaluates and predicts, and writes what came of it."""

import json
import os
import signal
import sys
from pathlib import Path

import keras_gpukit as gpukit

folder, chosen = Path(sys.argv[1]), sys.argv[2:]
setup = gpukit.configure_gpus(devices="none", seed=0, verbose=False, worker_timeout_s=120)

import keras  # noqa: E402
import numpy as np  # noqa: E402

config = json.loads(os.environ.get("TF_CONFIG", "{}"))
index = config["task"]["index"] if config else 0
own = folder / f"own{index}"
random = np.random.default_rng(0)
x = random.normal(size=(64, 5)).astype("float32")
y = (x @ random.normal(size=(5, 1))).astype("float32")
validation = (x[:24], y[:24])


class CustomStep(keras.Model):
    """Has a `train_step` of its own, in plain Keras."""

    def train_step(self, data):
        import tensorflow as tf

        inputs, targets = data
        with tf.GradientTape() as tape:
            loss = self.compute_loss(x=inputs, y=targets, y_pred=self(inputs, training=True))
        variables = self.trainable_variables
        self.optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
        return {"own_loss": loss}


def build(model_class=keras.Model, **compile_options):
    with setup.scope():
        inputs = keras.Input((5,))
        hidden = keras.layers.Dense(8, activation="relu")(inputs)
        model = model_class(inputs, keras.layers.Dense(1)(hidden))
        initial = np.random.default_rng(1)
        model.set_weights([initial.normal(size=w.shape) * 0.3 for w in model.get_weights()])
        optimizer = keras.optimizers.SGD(0.05, momentum=0.9)
        metrics = ["mae"] if model_class is keras.Model else None
        model.compile(optimizer, "mse", metrics=metrics, **compile_options)
    return model


class KillOne(keras.callbacks.Callback):
    """Ends a worker in the middle of the second epoch."""

    epoch = 0

    def on_epoch_begin(self, epoch, logs=None):
        self.epoch = epoch

    def on_train_batch_end(self, batch, logs=None):
        if (self.epoch, batch, index) == (1, 1, 1):
            os.kill(os.getpid(), signal.SIGKILL)


def everything():
    """`fit` with the usual callbacks, `evaluate` and `predict`."""
    model = build()
    monitor = gpukit.Monitor(folder / "logs")
    callbacks = [
        monitor,
        keras.callbacks.ModelCheckpoint(own / "best.keras", save_best_only=True),
        keras.callbacks.BackupAndRestore(own / "backup", delete_checkpoint=False),
        keras.callbacks.TensorBoard(own / "tensorboard", write_graph=False),
        keras.callbacks.CSVLogger(own / "log.csv"),
        keras.callbacks.EarlyStopping(patience=0, restore_best_weights=True, min_delta=0.3),
    ]
    fit = {"batch_size": 16, "validation_data": validation, "verbose": 0}
    history = model.fit(x, y, epochs=5, callbacks=callbacks, **fit)
    measured = ("steps", "step_time_s", "input_stall_fraction")
    return {
        "history": history.history,
        "weights": weights(model),
        "evaluate": model.evaluate(x, y, batch_size=16, verbose=0, return_dict=True),
        "predict": model.predict(x[:40], batch_size=16, verbose=0).ravel().tolist(),
        "monitor": {name: getattr(monitor.summary, name) for name in measured},
    }


def ways():
    """Other ways of running the step."""
    results = {}
    several, custom = build(steps_per_execution=3), build(CustomStep)
    for name, model in (("several_steps", several), ("custom_step", custom)):
        history = model.fit(x, y, epochs=2, batch_size=16, shuffle=False, verbose=0)
        results[name] = {"weights": weights(model), "history": history.history}
    return results


def resumable():
    """Three epochs with a backup after each; in the second one a worker is killed if asked for."""
    model = build()
    callbacks = [keras.callbacks.BackupAndRestore(own / "resume", delete_checkpoint=False)]
    if "KILL" in os.environ:
        callbacks.append(KillOne())
    fit = {"epochs": 3, "batch_size": 16, "shuffle": False, "verbose": 0}
    history = model.fit(x, y, callbacks=callbacks, **fit)
    return {"history": history.history, "weights": weights(model), "epochs": history.epoch}


def weights(model):
    return np.concatenate([w.ravel() for w in model.get_weights()]).tolist()


own.mkdir(parents=True, exist_ok=True)
cases = {case.__name__: case for case in (everything, ways, resumable)}
results = {case: cases[case]() for case in chosen}
results |= {"replicas": setup.replicas, "is_chief": setup.is_chief}
results["files"] = sorted(str(path.relative_to(own)) for path in own.rglob("*"))
(folder / f"results{index}.json").write_text(json.dumps(results))
