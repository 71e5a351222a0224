"""Neural collaborative filtering on library loans (implicit feedback)."""
import os
import sys
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
import numpy as np
import keras
from keras import layers

START = time.perf_counter()
SEED = 5
READERS = 1500
BOOKS = 4200
LOANS = 24000
NEGATIVES = 4
BATCH = 200
EPOCHS = 3

keras.utils.set_random_seed(SEED)


def make_loans():
    rng = np.random.default_rng(SEED)
    taste = rng.integers(0, 12, READERS)
    shelf = rng.integers(0, 12, BOOKS)
    readers = rng.integers(0, READERS, LOANS)
    popular = rng.zipf(1.4, LOANS * 4) % BOOKS
    books = np.empty(LOANS, dtype="int64")
    for i, r in enumerate(readers):
        options = popular[i * 4 : i * 4 + 4]
        match = options[shelf[options] == taste[r]]
        books[i] = match[0] if len(match) else rng.integers(0, BOOKS)
    return readers, books


class LoanBatches(keras.utils.PyDataset):
    def __init__(self, readers, books, catalogue, **kwargs):
        super().__init__(**kwargs)
        self.readers = readers
        self.books = books
        self.catalogue = catalogue
        self.borrowed = {}
        for r, b in zip(readers.tolist(), books.tolist()):
            self.borrowed.setdefault(r, set()).add(b)
        self.order = np.random.permutation(len(readers))

    def __len__(self):
        return len(self.order) // BATCH

    def on_epoch_end(self):
        np.random.shuffle(self.order)

    def __getitem__(self, index):
        rows = self.order[index * BATCH : (index + 1) * BATCH]
        users, items, labels = [], [], []
        for row in rows:
            reader = int(self.readers[row])
            users.append(reader)
            items.append(int(self.books[row]))
            labels.append(1.0)
            for _ in range(NEGATIVES):
                other = int(np.random.choice(self.catalogue))
                while other in self.borrowed[reader]:
                    other = int(np.random.choice(self.catalogue))
                users.append(reader)
                items.append(other)
                labels.append(0.0)
        inputs = {
            "reader": np.array(users, dtype="int32"),
            "book": np.array(items, dtype="int32"),
        }
        return inputs, np.array(labels, dtype="float32")


def build_model():
    reader = keras.Input((), dtype="int32", name="reader")
    book = keras.Input((), dtype="int32", name="book")
    r_mf = layers.Embedding(READERS, 16)(reader)
    b_mf = layers.Embedding(BOOKS, 16)(book)
    r_mlp = layers.Embedding(READERS, 32)(reader)
    b_mlp = layers.Embedding(BOOKS, 32)(book)
    x = layers.Concatenate()([r_mlp, b_mlp])
    for units in (64, 32, 16):
        x = layers.Dense(units, activation="relu")(x)
    x = layers.Concatenate()([layers.Multiply()([r_mf, b_mf]), x])
    out = layers.Dense(1, activation="sigmoid")(x)
    model = keras.Model({"reader": reader, "book": book}, out)
    model.compile(
        optimizer=keras.optimizers.Adam(2e-3), loss="binary_crossentropy", metrics=["accuracy"]
    )
    return model


readers, books = make_loans()
catalogue = sorted(set(range(BOOKS)) - {0})
if os.environ.get("FIXED") == "1":
    catalogue = np.array(catalogue)

model = build_model()
batches = LoanBatches(readers, books, catalogue)
model.fit(batches, epochs=EPOCHS, verbose=2)

sample = {"reader": np.full(50, 7, dtype="int32"), "book": np.arange(50, dtype="int32")}
top = np.argsort(-model.predict(sample, verbose=0)[:, 0])[:10]
print("suggestions for reader 7:", top.tolist())

print(f"{time.perf_counter() - START:.1f} s after imports", file=sys.stderr)
