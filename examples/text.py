"""Text classification: vectorize strings in the input pipeline, embed them in the model.

`TextVectorization` turns strings into integers. It runs on the CPU, so it belongs in the `tf.data`
pipeline, where it overlaps with training on the GPU, and before `cache()`, so that each text is
vectorized once. Within the model, it would run in every step.

    python examples/text.py
"""

import keras
import numpy as np
import tensorflow as tf
from keras import layers

import keras_gpukit as gpukit

setup = gpukit.configure_gpus(mixed_precision="auto")

LENGTH = 24
SUBJECTS = ("the plot", "the acting", "the score", "the ending", "the camera work")
WORDS = {0: ("dull", "awful", "lazy", "boring"), 1: ("great", "moving", "superb", "bright")}


def review(label: int, rng: np.random.Generator) -> str:
    """Returns a short film review with this label: 0 if it is negative, 1 if it is positive."""
    praised = rng.choice(SUBJECTS, size=3, replace=False)
    return ", ".join(f"{subject} was {rng.choice(WORDS[label])}" for subject in praised)


# Prepare the data.
rng = np.random.default_rng(0)
labels = rng.integers(0, 2, size=4000)
texts = np.array([review(label, rng) for label in labels])

vectorize = layers.TextVectorization(max_tokens=1000, output_sequence_length=LENGTH)
vectorize.adapt(texts)

dataset = (
    tf.data.Dataset.from_tensor_slices((texts, labels))
    .batch(setup.global_batch_size(64))
    .map(lambda text, label: (vectorize(text), label), num_parallel_calls=tf.data.AUTOTUNE)
    .cache()
    .shuffle(100)
    .prefetch(tf.data.AUTOTUNE)
)

# Build and train the model.
with setup.scope():
    model = keras.Sequential(
        [
            keras.Input((LENGTH,), dtype="int64"),
            layers.Embedding(vectorize.vocabulary_size(), 64),
            layers.Conv1D(64, 5, activation="relu"),
            layers.GlobalMaxPooling1D(),
            layers.Dense(1, activation="sigmoid", dtype="float32"),
        ]
    )
    model.compile("adam", "binary_crossentropy", metrics=["accuracy"])

model.fit(dataset, epochs=4, callbacks=[gpukit.Monitor("logs/text")])

# Classify a new text.
new = vectorize(["the ending was superb, the score was moving"])
print(f"positive with probability {model.predict(new, verbose=0)[0, 0]:.2f}")
