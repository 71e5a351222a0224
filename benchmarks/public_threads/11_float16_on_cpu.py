# Source: GitHub, tensorflow/tensorflow #45441 "mixed_precision make train and predict very slow when only using cpu".
# The user saw: a notebook from a GPU course was moved to a laptop. It keeps the line that sets "mixed_float16, twice as
#   fast", and an epoch takes more than twice as long as a friend's on the same laptop. All cores are busy.
# True cause: the processor has no float16 arithmetic: convolutions and their gradients run in software (the last layers'
#   float32 do not matter). float32 does the same steps in less than half the time.
# First line of a good tool: the policy mixed_float16 (line of set_global_policy) makes the convolutions slow on this
#   CPU: .. % of the step; float32 (or mixed_bfloat16) there, keep it for GPUs.
# Must not say: input-bound, other processes use the cores, "use mixed precision", a larger batch, a smaller model as the
#   first line; nothing found (compute 9x %).
# FIXED=1: the policy stays float32. LOSSES are close, not equal. Kind: speed, precision on a CPU.
import os, sys, time

import keras
import numpy as np

FIXED = os.environ.get("FIXED") == "1"
keras.utils.set_random_seed(1)
if not FIXED:
    keras.mixed_precision.set_global_policy("mixed_float16")

rng = np.random.default_rng(0)
x = rng.random((768, 28, 28, 1)).astype("float32")
y = (x[:, 7:21, 7:21].mean((1, 2, 3)) > 0.5).astype("float32")[:, None]

model = keras.Sequential([
    keras.Input((28, 28, 1)),
    keras.layers.Conv2D(16, 3, padding="same", activation="relu"),
    keras.layers.Conv2D(32, 3, padding="same", activation="relu"),
    keras.layers.MaxPooling2D(),
    keras.layers.Conv2D(32, 3, padding="same", activation="relu"),
    keras.layers.GlobalAveragePooling2D(),
    keras.layers.Dense(1, activation="sigmoid", dtype="float32"),
])
model.compile("adam", "binary_crossentropy")
began = time.time()
history = model.fit(x, y, batch_size=64, epochs=6, verbose=2)
print("FIT_S", round(time.time() - began, 2), file=sys.stderr)
print("LOSSES", history.history["loss"])
