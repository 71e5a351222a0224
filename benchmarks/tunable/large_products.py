"""Large matrix products, which take nearly all of the time: no change makes them faster."""

import keras
import numpy as np

model = keras.Sequential(
    [
        keras.Input((2048,)),
        keras.layers.Dense(2048, use_bias=False),
        keras.layers.Dense(2048, use_bias=False),
        keras.layers.Dense(2048, use_bias=False),
    ]
)
model.compile("sgd", "mse")
rows = np.random.default_rng(0).normal(size=(4096, 2048)).astype("float32")
model.fit(rows, rows, batch_size=1024, epochs=3, verbose=0)
