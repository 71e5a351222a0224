"""Image classification with the functional API: handwritten digits of eight by eight pixels."""

import argparse

import keras
import numpy as np
from keras import layers

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=5)
parser.add_argument("--batch-size", type=int, default=32)
args = parser.parse_args()

keras.utils.set_random_seed(1337)

# Prepare the data
rng = np.random.default_rng(0)
labels = rng.integers(10, size=1600)
prototypes = rng.normal(size=(10, 8, 8, 1))
images = (prototypes[labels] + rng.normal(size=(1600, 8, 8, 1))).astype("float32")
x_train, x_test = images[:1280], images[1280:]
y_train, y_test = labels[:1280], labels[1280:]
print("x_train shape:", x_train.shape)
print(x_test.shape[0], "test samples")

# Build the model
inputs = keras.Input(shape=(8, 8, 1))
x = layers.Conv2D(16, 3, activation="relu")(inputs)
x = layers.BatchNormalization()(x)
x = layers.Dropout(0.3)(x)
x = layers.Flatten()(x)
outputs = layers.Dense(10, activation="softmax")(x)
model = keras.Model(inputs, outputs, name="digits")
model.summary()

# Train the model
model.compile(
    loss="sparse_categorical_crossentropy",
    optimizer=keras.optimizers.Adam(learning_rate=1e-3),
    metrics=["accuracy"],
)
history = model.fit(
    x_train,
    y_train,
    batch_size=args.batch_size,
    epochs=args.epochs,
    validation_split=0.1,
    callbacks=[keras.callbacks.EarlyStopping(monitor="val_loss", patience=2)],
    verbose=2,
)
print(history.history)

# Evaluate the model
score = model.evaluate(x_test, y_test, verbose=0)
print("Test loss:", score[0])
print("Test accuracy:", score[1])
