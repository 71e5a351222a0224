"""Auto-tagging of songs: 60 tags (mood, genre, instrument) from pre-computed audio descriptors."""
import os
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import keras
import numpy as np
from keras import layers

N_TAGS = 60
N_FEATURES = 160
keras.utils.set_random_seed(3)


def make_songs(n, rng, mixing):
    x = rng.normal(size=(n, N_FEATURES)).astype("float32")
    logits = x @ mixing - 1.8 + rng.normal(scale=0.5, size=(n, N_TAGS))
    return x, (logits > 0).astype("float32")


rng = np.random.default_rng(3)
mixing = rng.normal(scale=0.12, size=(N_FEATURES, N_TAGS))
x_train, y_train = make_songs(20000, rng, mixing)
x_val, y_val = make_songs(3000, rng, mixing)
print("tags per song:", y_train.sum(1).mean())

inputs = keras.Input((N_FEATURES,))
x = layers.BatchNormalization()(inputs)
x = layers.Dense(512, activation="relu")(x)
x = layers.Dropout(0.3)(x)
x = layers.Dense(256, activation="relu")(x)
x = layers.Dropout(0.3)(x)
outputs = layers.Dense(N_TAGS, activation="sigmoid")(x)
model = keras.Model(inputs, outputs)

# product wants to pick the operating point later, so keep the whole curve
thresholds = [i / 100 for i in range(1, 100)]

model.compile(
    optimizer=keras.optimizers.Adam(1e-3),
    loss="binary_crossentropy",
    metrics=[
        keras.metrics.Precision(thresholds=thresholds, name="precision"),
        keras.metrics.Recall(thresholds=thresholds, name="recall"),
    ],
)

history = model.fit(
    x_train,
    y_train,
    batch_size=128,
    epochs=8,
    validation_data=(x_val, y_val),
    verbose=0,
)
print("val loss:", [round(v, 4) for v in history.history["val_loss"]])

precision = np.asarray(history.history["val_precision"][-1])
recall = np.asarray(history.history["val_recall"][-1])
f1 = 2 * precision * recall / np.maximum(precision + recall, 1e-9)
best = int(np.argmax(f1))
print(f"best threshold {thresholds[best]:.2f}  P={precision[best]:.3f} R={recall[best]:.3f} F1={f1[best]:.3f}")
