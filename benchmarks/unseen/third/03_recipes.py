"""Fill in missing words of recipe steps and write the completed steps to a file."""
import os
import sys
import tempfile
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
import numpy as np
import tensorflow as tf
import keras
from keras import layers

START = time.perf_counter()
SEED = 31
STEPS = 12000
WORDS = 12
EPOCHS = 3
BATCH = 128
SHOW = 160

keras.utils.set_random_seed(SEED)
rng = np.random.default_rng(SEED)

SYLLABLES = "ba co di fen gar hol ki lom mar nes pol ri sal tor ul ven wi zan".split()
VERBS = "chop stir bake simmer fold whisk roast drain season peel".split()


def make_steps():
    names = ["".join(rng.choice(SYLLABLES, 3)) for _ in range(6000)]
    weights = 1 / np.arange(1, len(names) + 1) ** 0.6
    weights /= weights.sum()
    foods = rng.choice(names, (STEPS, 3), p=weights)
    minutes = rng.integers(2, 60, STEPS)
    verbs = rng.choice(VERBS, (STEPS, 2))
    return [
        f"{v[0]} the {f[0]} with {f[1]} then {v[1]} {f[2]} for {m} minutes"
        for v, f, m in zip(verbs, foods, minutes)
    ]


steps = make_steps()
vectorizer = layers.TextVectorization(max_tokens=5000, output_sequence_length=WORDS)
vectorizer.adapt(steps)
ids = vectorizer(tf.constant(steps)).numpy()
size = vectorizer.vocabulary_size()

hidden = rng.random(ids.shape) < 0.2
masked = np.where(hidden, 1, ids)
weight = hidden.astype("float32")


def build_model():
    inputs = keras.Input((WORDS,), dtype="int32")
    x = layers.Embedding(size, 48)(inputs)
    x = layers.Conv1D(64, 3, padding="same", activation="relu")(x)
    x = layers.Conv1D(64, 5, padding="same", activation="relu")(x)
    x = layers.Dense(48, activation="relu")(x)
    outputs = layers.Dense(size)(x)
    model = keras.Model(inputs, outputs)
    model.compile(
        optimizer=keras.optimizers.Adam(2e-3),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    )
    return model


if os.environ.get("FIXED") == "1":
    word_of = vectorizer.get_vocabulary().__getitem__
else:

    def word_of(i):
        return vectorizer.get_vocabulary()[i]


def to_text(row):
    return " ".join(word_of(i) for i in row if i > 0)


model = build_model()
cut = STEPS - 1000
model.fit(
    masked[:cut],
    ids[:cut],
    sample_weight=weight[:cut],
    batch_size=BATCH,
    epochs=EPOCHS,
    verbose=2,
)

guess = model.predict(masked[cut : cut + SHOW], batch_size=64, verbose=0).argmax(axis=-1)
filled = np.where(hidden[cut : cut + SHOW], guess, ids[cut : cut + SHOW])
correct = (filled == ids[cut : cut + SHOW])[hidden[cut : cut + SHOW]].mean()
with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "completed.tsv")
    with open(path, "w") as out:
        for truth, row in zip(ids[cut : cut + SHOW], filled):
            out.write(f"{to_text(truth)}\t{to_text(row)}\n")
    print("hidden words right", round(float(correct), 3), "-", os.path.getsize(path), "bytes")

print(f"{time.perf_counter() - START:.1f} s after imports", file=sys.stderr)
