"""Image segmentation from a PyDataset with several workers; the best model is saved and loaded."""

import math
import pathlib
import tempfile

import keras
import numpy as np
from keras import layers

keras.utils.set_random_seed(11)


class Shapes(keras.utils.PyDataset):
    """Images with a bright disc, and the mask of the disc."""

    def __init__(self, count, batch_size, **kwargs):
        super().__init__(**kwargs)
        self.count = count
        self.batch_size = batch_size

    def __len__(self):
        return math.ceil(self.count / self.batch_size)

    def __getitem__(self, index):
        rng = np.random.default_rng(index)
        images, masks = [], []
        for _ in range(self.batch_size):
            row, column, radius = rng.uniform(4, 20), rng.uniform(4, 20), rng.uniform(2, 6)
            grid = np.mgrid[:24, :24]
            mask = (grid[0] - row) ** 2 + (grid[1] - column) ** 2 < radius**2
            images.append(mask + rng.normal(scale=0.5, size=mask.shape))
            masks.append(mask)
        return np.stack(images)[..., None].astype("f4"), np.stack(masks)[..., None].astype("f4")


def get_model():
    inputs = keras.Input((24, 24, 1))
    x = down = layers.Conv2D(8, 3, padding="same", activation="relu")(inputs)
    x = layers.MaxPooling2D()(x)
    x = layers.SeparableConv2D(16, 3, padding="same", activation="relu")(x)
    x = layers.UpSampling2D()(x)
    x = layers.Concatenate()([x, down])
    return keras.Model(inputs, layers.Conv2D(1, 1, activation="sigmoid")(x))


model = get_model()
model.compile(optimizer="adam", loss="binary_crossentropy", metrics=["accuracy"])
with tempfile.TemporaryDirectory() as folder:
    path = pathlib.Path(folder) / "best.keras"
    history = model.fit(
        Shapes(512, 32, workers=2, max_queue_size=4),
        epochs=3,
        validation_data=Shapes(64, 32),
        shuffle=False,
        callbacks=[keras.callbacks.ModelCheckpoint(path, save_best_only=True)],
        verbose=2,
    )
    print(history.history)
    best = keras.models.load_model(path)
    print("best:", best.evaluate(Shapes(64, 32), verbose=0, return_dict=True))
