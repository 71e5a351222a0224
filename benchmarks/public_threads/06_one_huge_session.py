# Source: GitHub, keras-team/keras #10477 "OOM when allocating tensor in the middle of training" (why not for all
#   batches?) and mozilla/DeepSpeech #321; ours is of that kind.
# The user saw: training runs through 99 % of the first epoch, then ResourceExhaustedError. With a smaller network it
#   dies at the same place. "All batches are the same, why does it run out of memory in the middle?"
# True cause: each batch is one recorded session from one file. 40 of them hold 32 windows; the last one ran overnight
#   and holds 2,400: its batch needs 75 times as much as the others.
# First line of a good tool: out of memory in step 41 of epoch 1: its batch has 2,400 examples, those before had 32:
#   Sessions.__getitem__ (line) makes one batch of the whole file; cut it into batches of 32.
# Must not say: batch_size=16 (there is none: the sequence decides), the network is too large, a leak, mixed precision
#   as the way out, "memory grows with each step".
# FIXED=1: long sessions are cut into batches of at most 32. Kind: failure, memory, one huge batch.
import os

os.environ.update(TF_CPU_ALLOCATOR_USE_BFC="true", TF_CPU_BFC_MEM_LIMIT_IN_MB="512", TF_ENABLE_ONEDNN_OPTS="0")
import pathlib, sys, tempfile, time

import keras
import numpy as np

FIXED = os.environ.get("FIXED") == "1"
keras.utils.set_random_seed(1)
folder = pathlib.Path(tempfile.mkdtemp())
rng = np.random.default_rng(0)
for number in range(41):
    length = 2_400 if number == 40 else 32
    windows = rng.normal(size=(length, 128, 6)).astype("float32")
    np.savez(folder / f"{number:02}.npz", windows=windows, active=windows[:, :, 0].mean(1) > 0)


class Sessions(keras.utils.PyDataset):
    def __init__(self, folder, **options):
        super().__init__(**options)
        self.parts = []
        for path in sorted(folder.glob("*.npz")):
            length = len(np.load(path)["active"])
            size = 32 if FIXED else length
            self.parts += [(path, slice(at, at + size)) for at in range(0, length, size)]

    def __len__(self):
        return len(self.parts)

    def __getitem__(self, number):
        path, rows = self.parts[number]
        session = np.load(path)
        return session["windows"][rows], session["active"][rows].astype("float32")[:, None]


model = keras.Sequential([
    keras.Input((128, 6)),
    keras.layers.Conv1D(96, 7, padding="same", activation="relu"),
    keras.layers.Conv1D(96, 7, padding="same", activation="relu"),
    keras.layers.Conv1D(96, 7, padding="same", activation="relu"),
    keras.layers.GlobalAveragePooling1D(),
    keras.layers.Dense(1, activation="sigmoid"),
])
model.compile("adam", "binary_crossentropy")
losses = []
keep = keras.callbacks.LambdaCallback(on_train_batch_end=lambda batch, logs: losses.append(logs["loss"]))
began = time.time()
try:
    model.fit(Sessions(folder), epochs=1, shuffle=False, verbose=2, callbacks=[keep])
finally:
    print("LOSSES", losses[:40:10])
    print("FIT_S", round(time.time() - began, 2), file=sys.stderr)
