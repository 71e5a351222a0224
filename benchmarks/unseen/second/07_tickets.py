"""Route support tickets to one of six teams with a small text CNN."""
import math
import os
import sys
import time

import numpy as np
import keras
from keras import layers

START = time.time()

SETTINGS = {"optimizer": "adam", "loss": "sparse_categorical_crossentropy"}
SETTINGS["jit_compile"] = not os.environ.get("FIXED")

VOCAB = 4_000
TEAMS = 6

keras.utils.set_random_seed(17)


def load_tickets(n, seed):
    rng = np.random.default_rng(seed)
    teams = rng.integers(0, TEAMS, n)
    texts = []
    for team in teams:
        length = int(np.clip(rng.gamma(4, 12), 12, 160))
        words = rng.integers(TEAMS * 20 + 1, VOCAB, length)
        words[rng.random(length) < 0.15] = 1 + team * 20 + rng.integers(0, 20)
        texts.append(words)
    return texts, teams


class Tickets(keras.utils.PyDataset):
    """Tickets of about the same length share a batch, so there is little padding."""

    def __init__(self, texts, teams, batch_size=32, **kwargs):
        super().__init__(**kwargs)
        order = np.argsort([len(t) for t in texts], kind="stable")
        self.texts = [texts[i] for i in order]
        self.teams = np.asarray(teams)[order]
        self.batch_size = batch_size
        self.batches = np.random.permutation(math.ceil(len(texts) / batch_size))

    def __len__(self):
        return len(self.batches)

    def on_epoch_end(self):
        np.random.shuffle(self.batches)

    def __getitem__(self, i):
        b = self.batches[i] * self.batch_size
        texts = self.texts[b : b + self.batch_size]
        width = max(len(t) for t in texts)
        x = np.zeros((len(texts), width), "int32")
        for row, t in zip(x, texts):
            row[: len(t)] = t
        return x, self.teams[b : b + self.batch_size]


train = Tickets(*load_tickets(1280, 0))
val = Tickets(*load_tickets(160, 1))

inputs = keras.Input((None,), dtype="int32")
x = layers.Embedding(VOCAB, 48)(inputs)
branches = [layers.Conv1D(48, k, padding="same", activation="relu")(x) for k in (2, 3, 5)]
x = layers.Concatenate()(branches)
x = layers.Conv1D(64, 3, padding="same", activation="relu")(x)
x = layers.GlobalMaxPooling1D()(x)
x = layers.Dropout(0.3)(x)
outputs = layers.Dense(TEAMS, activation="softmax")(x)
model = keras.Model(inputs, outputs)

model.compile(metrics=["accuracy"], **SETTINGS)
model.fit(train, validation_data=val, epochs=5, verbose=2)

print(f"SECONDS {time.time() - START:.1f}", file=sys.stderr)
