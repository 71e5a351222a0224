# Source: GitHub, radiasoft/sirepo #2983 "ml: bad csv data causes regression to silently fail" (a missing horsepower in the
#   car table makes all errors NaN) and keras-team/keras #2134 "NAN loss for regression while training".
# The user saw: loss: nan from the first epoch on. A smaller learning rate (now 1e-4) and clipnorm changed nothing; the
#   network is plain float32.
# True cause: the column horsepower is empty in 3 of 12,000 lines, genfromtxt reads them as NaN. The first batch with such
#   a row makes all weights NaN; everything after that is lost, 15 epochs for nothing.
# First line of a good tool: the loss is NaN since step .. of epoch 1 because the input holds NaN (3 rows, column 2, from
#   the data and not from the model): drop or fill them. At the least: nothing is learnt, look for NaN in the data.
# Must not say: lower the learning rate, clip gradients, mixed precision or loss scaling as the cause; any finding on
#   speed first; no finding; an overflow in a layer.
# FIXED=1: lines with a missing value are dropped. Kind: failure (silent), NaN in the data.
import csv, os, pathlib, sys, tempfile, time

import keras
import numpy as np

FIXED = os.environ.get("FIXED") == "1"
keras.utils.set_random_seed(1)
COLUMNS = ["cylinders", "displacement", "horsepower", "weight", "acceleration", "year", "mpg"]

path = pathlib.Path(tempfile.mkdtemp()) / "cars.csv"
rng = np.random.default_rng(0)
with path.open("w", newline="") as file:
    writer = csv.writer(file)
    writer.writerow(COLUMNS)
    for number in range(12_000):
        power, weight = rng.uniform(50, 220), rng.uniform(1_600, 5_000)
        mpg = 52 - 0.006 * weight - 0.05 * power + rng.normal(0, 1)
        known = f"{power:.0f}" if number not in (3_341, 5_870, 9_015) else ""
        writer.writerow([rng.choice([4, 6, 8]), f"{rng.uniform(70, 450):.1f}", known, f"{weight:.0f}",
                         f"{rng.uniform(8, 24):.1f}", rng.integers(70, 83), f"{mpg:.1f}"])

table = np.genfromtxt(path, delimiter=",", skip_header=1, dtype="float32")
if FIXED:
    table = table[np.isfinite(table).all(axis=1)]
table = (table - np.nanmean(table, axis=0)) / np.nanstd(table, axis=0)
features, mpg = table[:, :-1], table[:, -1]

model = keras.Sequential([
    keras.Input((len(COLUMNS) - 1,)),
    keras.layers.Dense(128, activation="relu"),
    keras.layers.Dense(128, activation="relu"),
    keras.layers.Dense(1),
])
model.compile(keras.optimizers.Adam(1e-4, clipnorm=1.0), "mse", metrics=["mae"])
began = time.time()
history = model.fit(features, mpg, batch_size=64, epochs=15, validation_split=0.1, verbose=2)
print("FIT_S", round(time.time() - began, 2), file=sys.stderr)
print("LOSSES", history.history["loss"])
