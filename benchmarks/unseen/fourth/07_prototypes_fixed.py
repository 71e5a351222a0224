# Prototype network for sensor readings: each sample is described by how close it is to a set of
# learned prototypes, and a linear read-out makes the decision (nice to interpret afterwards).
import os
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"

import keras
import numpy as np
from keras import layers, ops

keras.utils.set_random_seed(17)


class Prototypes(layers.Layer):
    """exp(-gamma * ||x - p||^2) for every prototype p."""

    def __init__(self, count, gamma=0.05, **kwargs):
        super().__init__(**kwargs)
        self.count = count
        self.gamma_init = gamma

    def build(self, input_shape):
        self.points = self.add_weight(
            shape=(self.count, input_shape[-1]), initializer=keras.initializers.RandomNormal(stddev=1.0), name="points"
        )
        self.gamma = self.add_weight(
            shape=(self.count,), initializer=keras.initializers.Constant(self.gamma_init), name="gamma"
        )

    def call(self, x):
        # |x|^2 - 2 x.p + |p|^2
        x2 = ops.sum(ops.square(x), axis=-1, keepdims=True)
        p2 = ops.sum(ops.square(self.points), axis=-1)
        dist = ops.maximum(x2 - 2.0 * ops.matmul(x, ops.transpose(self.points)) + p2, 0.0)
        return ops.exp(-ops.abs(self.gamma) * dist)

    def get_config(self):
        return {**super().get_config(), "count": self.count, "gamma": self.gamma_init}


rng = np.random.default_rng(17)
centres = rng.normal(size=(40, 48))
which = rng.integers(0, 40, 16000)
readings = (centres[which] + rng.normal(scale=0.9, size=(16000, 48))).astype("float32")
state = (which % 7).astype("int32")

# standardise the channels
readings = (readings - readings.mean(0)) / readings.std(0)
x_train, x_val = readings[:14000], readings[14000:]
y_train, y_val = state[:14000], state[14000:]

inputs = keras.Input((48,))
z = layers.Dense(48, activation="tanh")(inputs)
z = layers.Dense(48)(z)
z = Prototypes(900, name="prototypes")(z)
z = layers.BatchNormalization()(z)
outputs = layers.Dense(7, activation="softmax")(z)
model = keras.Model(inputs, outputs)

model.compile(
    optimizer=keras.optimizers.Adam(2e-3),
    loss="sparse_categorical_crossentropy",
    metrics=["accuracy"],
)
model.fit(
    x_train,
    y_train,
    batch_size=200,
    epochs=10,
    validation_data=(x_val, y_val),
    callbacks=[keras.callbacks.EarlyStopping(patience=6, restore_best_weights=True)],
    verbose=2,
)
print("validation:", model.evaluate(x_val, y_val, verbose=0))
