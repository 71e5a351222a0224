# Source: GitHub, milesial/Pytorch-UNet #449 "treat glob as an expensive operation" (each item looks for its files anew).
# The user saw: training on masks from a folder is slow, and slower the more files the folder has, though each epoch uses
#   the same 256 of them. Reading one pair takes half a millisecond.
# True cause: __getitem__ finds the image and the mask that belong to a number by glob: it lists the folder of 6,000 files
#   twice per example, 32 times per batch.
# First line of a good tool: input-bound by Pairs.__getitem__ (line), .. % of it in glob (line in pick): the folder is
#   listed again for each example: list it once in __init__.
# Must not say: decode/np.load is slow, a slow disk, "use more workers" as the first thing (threads share the GIL),
#   cache() (it is no tf.data), the model.
# FIXED=1: one listing in __init__. Kind: speed, repeated file listing.
import os, pathlib, sys, tempfile, time

import keras
import numpy as np

FIXED = os.environ.get("FIXED") == "1"
keras.utils.set_random_seed(1)
folder = pathlib.Path(tempfile.mkdtemp())
BATCH, USED = 16, 256

rng = np.random.default_rng(0)
for number in range(3_000):
    if number < USED:
        image = rng.integers(0, 255, (48, 48, 1), dtype=np.uint8)
        np.save(folder / f"{number:05}_image.npy", image)
        np.save(folder / f"{number:05}_mask_v2.npy", image > 120)
    else:
        (folder / f"{number:05}_image.npy").touch()
        (folder / f"{number:05}_mask_v2.npy").touch()


class Pairs(keras.utils.PyDataset):
    def __init__(self, folder, **options):
        super().__init__(**options)
        self.folder = folder
        self.names = {}
        if FIXED:
            for path in sorted(folder.iterdir()):
                self.names.setdefault("_".join(path.name.split("_")[:2]).removesuffix(".npy"), path)

    def __len__(self):
        return USED // BATCH

    def pick(self, number, what):
        if FIXED:
            return self.names[f"{number:05}_{what}"]
        return list(self.folder.glob(f"{number:05}_{what}*.npy"))[0]

    def __getitem__(self, at):
        numbers = range(at * BATCH, (at + 1) * BATCH)
        images = [np.load(self.pick(number, "image")) for number in numbers]
        masks = [np.load(self.pick(number, "mask")) for number in numbers]
        return np.stack(images) / np.float32(255), np.stack(masks).astype("float32")


model = keras.Sequential([
    keras.Input((48, 48, 1)),
    keras.layers.Conv2D(8, 3, padding="same", activation="relu"),
    keras.layers.Conv2D(1, 3, padding="same", activation="sigmoid"),
])
model.compile("adam", "binary_crossentropy")
began = time.time()
history = model.fit(Pairs(folder), epochs=4, shuffle=False, verbose=2)
print("FIT_S", round(time.time() - began, 2), file=sys.stderr)
print("LOSSES", history.history["loss"])
