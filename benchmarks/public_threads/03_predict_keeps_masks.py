# Source: GitHub, tensorflow/tensorflow #40547 (fails at batch 47 of 70 with batch_size=1), #44986 and #42862
#   (predict runs out of memory at any batch size), keras-team/keras #21642 "non-cumulative prediction options" (2025).
# The user saw: training a segmentation model is no problem; predict over the whole archive dies after most of the
#   batches with ResourceExhaustedError, and a smaller batch_size changes nothing.
# True cause: predict keeps the output of every batch on the device until the end: 300 masks of 256 x 256 x 8 floats
#   are 630 MB, the device has 512 MiB. One batch needs 35 MB.
# First line of a good tool: out of memory in predict (line): its results stay on the device, 2.1 MB per photo, .. of 300
#   photos fitted: predict in parts and keep only what is needed (argmax), or let the model return it.
# Must not say: a smaller batch (predict's or fit's), gradients/optimizer/mixed precision/rematerialization, a layer of
#   the model as the culprit, a memory leak of fit.
# FIXED=1: predict in parts of 50 photos, keeping argmax. Kind: failure, memory in predict.
import os

os.environ.update(TF_CPU_ALLOCATOR_USE_BFC="true", TF_CPU_BFC_MEM_LIMIT_IN_MB="512", TF_ENABLE_ONEDNN_OPTS="0")
import sys, time

import keras
import numpy as np

FIXED = os.environ.get("FIXED") == "1"
keras.utils.set_random_seed(1)
KINDS = 8

rng = np.random.default_rng(0)
patches = rng.integers(0, 255, (384, 64, 64, 1), dtype=np.uint8)
masks = (patches[..., 0] // 32).astype("uint8")
archive = rng.integers(0, 255, (300, 256, 256, 1), dtype=np.uint8)

model = keras.Sequential([
    keras.Input((None, None, 1), dtype="uint8"),
    keras.layers.Rescaling(1 / 255),
    keras.layers.Conv2D(8, 3, padding="same", activation="relu"),
    keras.layers.Conv2D(8, 3, padding="same", activation="relu"),
    keras.layers.Conv2D(KINDS, 1, activation="softmax"),
])
model.compile("adam", "sparse_categorical_crossentropy")
history = model.fit(patches, masks, batch_size=16, epochs=5, verbose=2)
print("LOSSES", history.history["loss"], flush=True)

began = time.time()
try:
    if FIXED:
        kinds = np.concatenate([
            model.predict(archive[at : at + 50], batch_size=4, verbose=0).argmax(-1).astype("uint8")
            for at in range(0, len(archive), 50)
        ])
    else:
        kinds = model.predict(archive, batch_size=4, verbose=2).argmax(-1).astype("uint8")
finally:
    print("FIT_S", round(time.time() - began, 2), file=sys.stderr)
print("AREA", np.bincount(kinds.ravel(), minlength=KINDS).tolist())
