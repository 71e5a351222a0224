"""Batches of word counts come from a PyDataset in plain Python; workers=4 did not make it faster.

Finding: input-bound, gil-contention
"""

import sys
import time

import keras
import numpy as np

FIXED = "--fix" in sys.argv
VOCABULARY, BATCH, BATCHES = 400, 64, 120
keras.utils.set_random_seed(1)
draws = np.random.default_rng(1)
WORDS = draws.integers(0, VOCABULARY, (BATCH * BATCHES, 250))
TEXTS = [" ".join(f"w{word}" for word in row) for row in WORDS]
LABELS = draws.integers(0, 2, len(TEXTS))
INDEX = {f"w{word}": word for word in range(VOCABULARY)}


def counts(text):
    row = [0.0] * VOCABULARY
    for word in text.split():
        row[INDEX[word.strip().lower()]] += 1.0
    norm = sum(value * value for value in row) ** 0.5
    return [value / norm for value in row]


class WordCounts(keras.utils.PyDataset):
    def __len__(self):
        return BATCHES

    def __getitem__(self, index):
        rows = slice(index * BATCH, (index + 1) * BATCH)
        if FIXED:
            return COUNTED[rows], LABELS[rows]
        return np.array([counts(text) for text in TEXTS[rows]], "float32"), LABELS[rows]


COUNTED = np.array([counts(text) for text in TEXTS], "float32") if FIXED else None
layers = [keras.layers.Dense(512, "relu"), keras.layers.Dense(256, "relu")]
layers.append(keras.layers.Dense(2, "softmax"))
model = keras.Sequential([keras.Input((VOCABULARY,)), *layers])
model.compile("adam", "sparse_categorical_crossentropy")
began = time.perf_counter()
history = model.fit(WordCounts(workers=4), epochs=10, shuffle=False, verbose=2)
print("FIT_S", time.perf_counter() - began, file=sys.stderr)
print("LOSSES", history.history["loss"])
