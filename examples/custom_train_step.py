"""A custom `train_step`: mixup, with the usual `fit` and callbacks.

Mixup ([Zhang et al. 2017](https://arxiv.org/abs/1710.09412)) trains on weighted means of two
examples and of their labels. `Monitor` measures such a step without a change.

    python examples/custom_train_step.py
"""

import keras
import numpy as np
import tensorflow as tf
from keras import layers

import keras_gpukit as gpukit

setup = gpukit.configure_gpus(mixed_precision="auto")

CLASSES = 4


class Mixup(keras.Model):
    """A classifier that trains on mixed examples."""

    def __init__(self, network: keras.Model, alpha: float = 0.2) -> None:
        super().__init__()
        self.network, self.alpha = network, alpha

    def call(self, x: tf.Tensor, training: bool = False) -> tf.Tensor:
        return self.network(x, training=training)

    def train_step(self, data: tuple[tf.Tensor, tf.Tensor]) -> dict[str, tf.Tensor]:
        x, y = data
        share = keras.random.beta((), self.alpha, self.alpha)
        mixed_x = share * x + (1 - share) * x[::-1]
        mixed_y = share * y + (1 - share) * y[::-1]
        with tf.GradientTape() as tape:
            predicted = self(mixed_x, training=True)
            loss = self.compute_loss(mixed_x, mixed_y, predicted)
            scaled = self.optimizer.scale_loss(loss)
        gradients = tape.gradient(scaled, self.trainable_variables)
        self.optimizer.apply(gradients, self.trainable_variables)
        for metric in self.metrics:
            if metric.name == "loss":
                metric.update_state(loss)
            else:
                metric.update_state(mixed_y, predicted)
        return self.get_metrics_result()


# Prepare the data: noisy points around one center for each class.
rng = np.random.default_rng(0)
centers = rng.normal(size=(CLASSES, 64))
classes = rng.integers(0, CLASSES, size=4000)
points = (centers[classes] + rng.normal(size=(len(classes), 64))).astype("float32")
targets = keras.utils.to_categorical(classes, CLASSES)

# Build and train the model.
with setup.scope():
    network = keras.Sequential(
        [
            layers.Dense(128, activation="relu"),
            layers.Dense(128, activation="relu"),
            layers.Dense(CLASSES, activation="softmax", dtype="float32"),
        ]
    )
    model = Mixup(network)
    model.compile("adam", "categorical_crossentropy", metrics=["accuracy"])

monitor = gpukit.Monitor("logs/custom_train_step")
model.fit(points, targets, batch_size=setup.global_batch_size(64), epochs=4, callbacks=[monitor])
