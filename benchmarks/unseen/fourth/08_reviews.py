"""Sentiment of customer reviews with an LSTM."""
import os
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"

import keras
import numpy as np
import tensorflow as tf
from keras import layers

keras.utils.set_random_seed(4)
rng = np.random.default_rng(4)

# ---- reviews (stand-in for the scraped ones) -------------------------------
neutral = [f"word{i}" for i in range(3000)]
good = ["great", "love", "perfect", "happy", "solid", "recommend"]
bad = ["broken", "awful", "refund", "cheap", "late", "disappointed"]


def review(positive):
    n = int(np.clip(rng.lognormal(3.1, 0.45), 5, 90))
    if rng.random() < 0.002:  # now and then somebody writes an essay
        n = int(rng.integers(300, 420))
    words = list(rng.choice(neutral, n))
    for w in rng.choice(good if positive else bad, 3):
        words[rng.integers(0, n)] = str(w)
    return " ".join(words)


labels = rng.integers(0, 2, 3500)
texts = np.array([review(p) for p in labels], dtype=object)
# -----------------------------------------------------------------------------

max_len = max(len(t.split()) for t in texts)
print("reviews:", len(texts), "max length:", max_len)

vectorize = layers.TextVectorization(max_tokens=4000, output_sequence_length=max_len)
vectorize.adapt(tf.constant(list(texts)))
tokens = vectorize(tf.constant(list(texts))).numpy()

x_train, y_train = tokens[:3000], labels[:3000]
x_val, y_val = tokens[3000:], labels[3000:]

model = keras.Sequential(
    [
        keras.Input((max_len,), dtype="int32"),
        layers.Embedding(4000, 32, mask_zero=True),
        layers.LSTM(48),
        layers.Dense(24, activation="relu"),
        layers.Dropout(0.3),
        layers.Dense(1, activation="sigmoid"),
    ]
)
model.compile(optimizer="adam", loss="binary_crossentropy", metrics=["accuracy"])
model.fit(
    x_train,
    y_train.astype("float32"),
    batch_size=64,
    epochs=3,
    validation_data=(x_val, y_val.astype("float32")),
    verbose=2,
)
model.save("sentiment.keras")
