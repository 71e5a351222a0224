"""Structured data: `FeatureSpace` prepares numbers and categories in the input pipeline.

Models for tables are small, so a GPU mostly waits for Python to start the next step. Two settings
help: a large batch, and several steps per execution.

    python examples/tabular.py
"""

import keras
import numpy as np
import tensorflow as tf
from keras import layers
from keras.utils import FeatureSpace

import keras_gpukit as gpukit

setup = gpukit.configure_gpus()

# Prepare the data: which customers leave.
rng = np.random.default_rng(0)
ROWS = 20_000
table = {
    "age": rng.integers(18, 90, ROWS),
    "monthly_bill": rng.gamma(4.0, 12.0, ROWS).astype("float32"),
    "contract": rng.choice(["monthly", "yearly", "two years"], ROWS),
    "support_calls": rng.poisson(1.5, ROWS),
}
risk = 0.03 * table["monthly_bill"] + 0.8 * table["support_calls"] - 2.5
risk += np.where(table["contract"] == "monthly", 1.0, -1.0)
leaves = (rng.random(ROWS) < 1 / (1 + np.exp(-risk))).astype("int32")

rows = tf.data.Dataset.from_tensor_slices((table, leaves)).batch(setup.global_batch_size(256))

features = FeatureSpace(
    features={
        "age": FeatureSpace.float_discretized(num_bins=10),
        "monthly_bill": FeatureSpace.float_normalized(),
        "contract": FeatureSpace.string_categorical(num_oov_indices=0),
        "support_calls": FeatureSpace.integer_categorical(),
    },
    output_mode="concat",
)
features.adapt(rows.map(lambda row, label: row))

dataset = (
    rows.map(lambda row, label: (features(row), label), num_parallel_calls=tf.data.AUTOTUNE)
    .cache()
    .shuffle(100)
    .prefetch(tf.data.AUTOTUNE)
)

# Build and train the model.
with setup.scope():
    encoded = features.get_encoded_features()
    x = layers.Dense(64, activation="relu")(encoded)
    x = layers.Dropout(0.2)(x)
    outputs = layers.Dense(1, activation="sigmoid")(x)
    model = keras.Model(encoded, outputs)
    model.compile(
        "adam",
        "binary_crossentropy",
        metrics=[keras.metrics.AUC(name="auc")],
        steps_per_execution=8,
    )

model.fit(dataset, epochs=5, callbacks=[gpukit.Monitor("logs/tabular")])
