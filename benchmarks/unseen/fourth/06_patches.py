"""Multi-task regression/classification on microscopy patches: four read-outs from one shared encoder."""
import os
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"

import keras
import numpy as np
import tensorflow as tf
from keras import layers

keras.utils.set_random_seed(8)
TASKS = ["cell_count", "mean_radius", "brightness", "is_dividing"]
WEIGHTS = {"cell_count": 1.0, "mean_radius": 0.5, "brightness": 0.5, "is_dividing": 2.0}
SIZE = 48


def make_patches(n, seed):
    rng = np.random.default_rng(seed)
    yy, xx = np.mgrid[:SIZE, :SIZE]
    imgs = rng.normal(scale=0.1, size=(n, SIZE, SIZE, 1)).astype("float32")
    targets = np.zeros((n, 4), "float32")
    for i in range(n):
        k = rng.integers(1, 7)
        radius = rng.uniform(2, 5)
        level = rng.uniform(0.4, 1.0)
        for cy, cx in rng.uniform(5, SIZE - 5, size=(k, 2)):
            imgs[i, (yy - cy) ** 2 + (xx - cx) ** 2 < radius**2, 0] += level
        targets[i] = (k / 6, radius / 5, level, float(k > 4 and radius > 3.5))
    return imgs, {t: targets[:, j : j + 1] for j, t in enumerate(TASKS)}


class MultiTask(keras.Model):
    """Weighted sum of task losses; each task keeps its own running loss for the paper's figure."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.encoder = keras.Sequential(
            [
                layers.Conv2D(16, 3, padding="same", activation="relu"),
                layers.BatchNormalization(),
                layers.MaxPooling2D(),
                layers.Conv2D(32, 3, padding="same", activation="relu"),
                layers.BatchNormalization(),
                layers.MaxPooling2D(),
                layers.Conv2D(48, 3, padding="same", activation="relu"),
                layers.GlobalAveragePooling2D(),
                layers.Dropout(0.1),
            ]
        )
        self.heads = {
            t: layers.Dense(1, activation="sigmoid" if t == "is_dividing" else None, name=t) for t in TASKS
        }
        self.trackers = {t: keras.metrics.Mean(name=t) for t in TASKS}

    @property
    def metrics(self):
        return list(self.trackers.values())

    def call(self, x, training=False):
        z = self.encoder(x, training=training)
        return {t: self.heads[t](z) for t in TASKS}

    def task_loss(self, task, y, pred):
        if task == "is_dividing":
            return tf.reduce_mean(keras.losses.binary_crossentropy(y, pred))
        return tf.reduce_mean(keras.losses.mean_squared_error(y, pred))

    def train_step(self, data):
        x, y = data
        total = None
        for task in TASKS:
            with tf.GradientTape() as tape:
                pred = self(x, training=True)
                loss = WEIGHTS[task] * self.task_loss(task, y[task], pred[task])
            grads = tape.gradient(loss, self.trainable_variables)
            # the other heads have no gradient for this task
            grads = [tf.zeros(v.shape) if g is None else g for g, v in zip(grads, self.trainable_variables)]
            total = grads if total is None else [a + b for a, b in zip(total, grads)]
            self.trackers[task].update_state(loss)
        self.optimizer.apply(total, self.trainable_variables)
        return {t: m.result() for t, m in self.trackers.items()}

    def test_step(self, data):
        x, y = data
        pred = self(x, training=False)
        for task in TASKS:
            self.trackers[task].update_state(WEIGHTS[task] * self.task_loss(task, y[task], pred[task]))
        return {t: m.result() for t, m in self.trackers.items()}


x_train, y_train = make_patches(1600, 0)
x_val, y_val = make_patches(300, 1)

model = MultiTask()
model.build((None, SIZE, SIZE, 1))
model.compile(optimizer=keras.optimizers.Adam(2e-3))
model.fit(x_train, y_train, validation_data=(x_val, y_val), batch_size=32, epochs=4, verbose=2)

model.save_weights("multitask.weights.h5")
