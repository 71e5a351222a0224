"""Adam updates all 400,000 rows of an embedding, of which a batch uses 5,120 at most.

As in keras-team/keras#19992.

Finding: dense-embedding-update
Names: items; SGD
"""

import sys
import time

import keras
import numpy as np

FIXED = "--fix" in sys.argv
keras.utils.set_random_seed(1)
ITEMS, BASKET = 400_000, 40

rng = np.random.default_rng(0)
baskets = (ITEMS * rng.random((12_800, BASKET)) ** 3).astype("int32")
returns = (baskets.mean(1) > ITEMS / 4).astype("float32")

model = keras.Sequential(
    [
        keras.Input((BASKET,), dtype="int32"),
        keras.layers.Embedding(ITEMS, 32, name="items"),
        keras.layers.GlobalAveragePooling1D(),
        keras.layers.Dense(32, activation="relu"),
        keras.layers.Dense(1, activation="sigmoid"),
    ]
)
model.compile(
    keras.optimizers.SGD(0.1) if FIXED else keras.optimizers.Adam(0.001), "binary_crossentropy"
)
began = time.time()
history = model.fit(baskets, returns, batch_size=128, epochs=8, verbose=2)
print("FIT_S", round(time.time() - began, 2), file=sys.stderr)
print("LOSSES", history.history["loss"])
