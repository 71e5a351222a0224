# Plant leaf disease classifier, trained from scratch on small crops.
import os
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"

import keras
import numpy as np
from keras import layers

keras.utils.set_random_seed(1)
rng = np.random.default_rng(1)

N, SIZE, CLASSES = 2000, 32, 5
os.makedirs("checkpoints", exist_ok=True)

# synthetic leaves: green background with class-dependent spots
y = rng.integers(0, CLASSES, N)
x = rng.normal(0.35, 0.08, size=(N, SIZE, SIZE, 3)).astype("float32")
x[..., 1] += 0.3
for i in range(N):
    for _ in range(2 + 2 * y[i]):
        r, c = rng.integers(0, SIZE - 5, 2)
        x[i, r : r + 4, c : c + 4] = (0.5, 0.3, 0.1 * y[i])
x_train, y_train, x_test, y_test = x[:1600], y[:1600], x[1600:], y[1600:]

model = keras.Sequential(
    [
        keras.Input((SIZE, SIZE, 3)),
        layers.RandomFlip("horizontal"),
        layers.Conv2D(12, 3, padding="same", activation="relu"),
        layers.MaxPooling2D(),
        layers.Conv2D(24, 3, padding="same", activation="relu"),
        layers.MaxPooling2D(),
        layers.Conv2D(48, 3, padding="same", activation="relu"),
        layers.Flatten(),
        layers.Dense(256, activation="relu"),
        layers.Dropout(0.4),
        layers.Dense(CLASSES, activation="softmax"),
    ]
)
model.compile(
    optimizer=keras.optimizers.Adam(5e-4),
    loss="sparse_categorical_crossentropy",
    metrics=["accuracy"],
)

callbacks = [
    # keep a copy of every epoch in case the laptop goes to sleep
    keras.callbacks.ModelCheckpoint("checkpoints/leaf_{epoch:02d}.keras", save_freq=1),
    keras.callbacks.ReduceLROnPlateau(patience=4, factor=0.5),
    keras.callbacks.CSVLogger("leaf_log.csv"),
]

model.fit(
    x_train,
    y_train,
    batch_size=32,
    epochs=8,
    validation_data=(x_test, y_test),
    callbacks=callbacks,
    verbose=2,
)
print("test:", model.evaluate(x_test, y_test, verbose=0))
