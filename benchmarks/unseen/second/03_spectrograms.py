"""Bird call detector: spectrograms are stored once in an HDF5 file, then trained on."""
import os
import sys
import tempfile
import time

import h5py
import numpy as np
import keras
from keras import layers

START = time.time()

ROWS = 1 if os.environ.get("FIXED") else 256
N_CLIPS = 1536
SHAPE = (64, 64, 1)

keras.utils.set_random_seed(11)


def write_clips(path):
    rng = np.random.default_rng(5)
    freq = np.linspace(0, 1, SHAPE[0])[:, None]
    step = np.linspace(0, 1, SHAPE[1])[None, :]
    with h5py.File(path, "w") as f:
        x = f.create_dataset(
            "x", (N_CLIPS, *SHAPE), "float32", chunks=(ROWS, *SHAPE), compression="gzip"
        )
        y = f.create_dataset("y", (N_CLIPS,), "int32")
        for begin in range(0, N_CLIPS, 256):
            label = rng.integers(0, 2, 256)
            centre = 0.2 + 0.6 * rng.random(256)
            slope = np.where(label == 1, 0.35, -0.05)
            ridge = centre[:, None, None] + slope[:, None, None] * (step - 0.5)
            block = np.exp(-((freq - ridge) ** 2) / 0.004)
            block += rng.normal(0, 0.15, block.shape)
            x[begin : begin + 256] = np.round(block, 2)[..., None]
            y[begin : begin + 256] = label


class ClipSequence(keras.utils.PyDataset):
    def __init__(self, path, indices, batch_size=32, shuffle=False, **kwargs):
        super().__init__(**kwargs)
        self.file = h5py.File(path, "r")
        self.indices = np.array(indices)
        self.batch_size = batch_size
        self.shuffle = shuffle
        self.on_epoch_end()

    def __len__(self):
        return int(np.ceil(len(self.indices) / self.batch_size))

    def on_epoch_end(self):
        if self.shuffle:
            np.random.shuffle(self.indices)

    def __getitem__(self, i):
        idx = self.indices[i * self.batch_size : (i + 1) * self.batch_size]
        x = np.stack([self.file["x"][j] for j in idx])
        y = np.array([self.file["y"][j] for j in idx])
        return x, y


path = os.path.join(tempfile.mkdtemp(), "clips.h5")
write_clips(path)

order = np.random.permutation(N_CLIPS)
train = ClipSequence(path, order[:1280], shuffle=True)
val = ClipSequence(path, order[1280:])

model = keras.Sequential(
    [
        keras.Input(SHAPE),
        layers.Conv2D(16, 3, strides=2, activation="relu"),
        layers.Conv2D(32, 3, strides=2, activation="relu"),
        layers.Conv2D(32, 3, strides=2, activation="relu"),
        layers.GlobalAveragePooling2D(),
        layers.Dense(32, activation="relu"),
        layers.Dense(1, activation="sigmoid"),
    ]
)
model.compile(optimizer="adam", loss="binary_crossentropy", metrics=["accuracy"])
model.fit(train, validation_data=val, epochs=2, verbose=2)

print(f"SECONDS {time.time() - START:.1f}", file=sys.stderr)
