"""A `PyDataset`: batches from Python code, prepared by several workers.

Each item is a batch of recordings, read from NumPy files. `workers` are threads here: reading files
and most of NumPy release the GIL. Code that computes in Python itself needs
`use_multiprocessing=True`.

    python examples/py_dataset.py
"""

import math
import tempfile
from pathlib import Path

import keras
import numpy as np
from keras import layers

import keras_gpukit as gpukit

setup = gpukit.configure_gpus()

SAMPLES = 1024


class Recordings(keras.utils.PyDataset):
    """Spectra of recordings, in batches."""

    def __init__(self, paths: list[Path], labels: np.ndarray, batch_size: int, **kwargs) -> None:
        super().__init__(**kwargs)
        self.paths, self.labels, self.batch_size = paths, labels, batch_size

    def __len__(self) -> int:
        return math.ceil(len(self.paths) / self.batch_size)

    def __getitem__(self, index: int) -> tuple[np.ndarray, np.ndarray]:
        batch = slice(index * self.batch_size, (index + 1) * self.batch_size)
        waves = np.stack([np.load(path) for path in self.paths[batch]])
        spectra = np.abs(np.fft.rfft(waves * np.hanning(SAMPLES)))
        return np.log1p(spectra).astype("float32"), self.labels[batch]


# Prepare the data: recordings of a low or a high tone in noise, one file each.
folder, rng = Path(tempfile.mkdtemp()), np.random.default_rng(0)
labels = rng.integers(0, 2, size=1000)
paths = [folder / f"{number}.npy" for number in range(len(labels))]
for path, label in zip(paths, labels, strict=True):
    tone = np.sin(np.arange(SAMPLES) * rng.uniform(0.2, 0.6) * (1 + 3 * label))
    np.save(path, tone + rng.normal(size=SAMPLES))

train = Recordings(paths, labels, setup.global_batch_size(20), workers=2, max_queue_size=16)

# Build and train the model.
with setup.scope():
    model = keras.Sequential(
        [
            keras.Input((SAMPLES // 2 + 1,)),
            layers.BatchNormalization(),
            layers.Dense(64, activation="relu"),
            layers.Dense(1, activation="sigmoid"),
        ]
    )
    model.compile("adam", "binary_crossentropy", metrics=["accuracy"])

model.fit(train, epochs=4, callbacks=[gpukit.Monitor("logs/py_dataset")])
