# Source: GitHub, tensorflow/tensorflow #40261 "model.predict is much slower on TF 2.1+" (predict in a loop) and
#   keras-team/keras #10947 "model.predict() runs faster when test examples are passed in as batch vs one by one."
# The user saw: training is short, but the script does not come to an end: "the confusion matrix at the end takes several
#   times as long as the training".
# True cause: after fit, model.predict is called for each of the 200 test pictures alone; each call sets up a dataset,
#   callbacks and a loop anew for one small picture (about 0.3 s a call here under load).
# First line of a good tool: .. of .. s passed after fit, in 200 calls of predict with one example each (line): one
#   predict(x_test) takes .. s (or model(x) for single ones).
# Must not say: nothing slows this run down, as the last word (fit is fine); anything within fit as the main cause;
#   retracing; the model is slow at prediction.
# FIXED=1: one predict for all. FIT_S is fit and the matrix together. Kind: speed, after fit, prediction.
import os, sys, time

import keras
import numpy as np

FIXED = os.environ.get("FIXED") == "1"
keras.utils.set_random_seed(1)
SIGNS = 6

rng = np.random.default_rng(0)
kinds = rng.integers(0, SIGNS, 2_120)
hands = rng.random((2_120, 24, 24, 1)).astype("float32") * 0.7
for kind in range(SIGNS):
    hands[kinds == kind, kind * 4:kind * 4 + 4] += 0.3
x, y, x_test, y_test = hands[:1_920], kinds[:1_920], hands[1_920:], kinds[1_920:]

model = keras.Sequential([
    keras.Input((24, 24, 1)),
    keras.layers.Conv2D(12, 3, activation="relu"),
    keras.layers.MaxPooling2D(),
    keras.layers.Conv2D(24, 3, activation="relu"),
    keras.layers.Flatten(),
    keras.layers.Dense(SIGNS, activation="softmax"),
])
model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
began = time.time()
history = model.fit(x, y, batch_size=64, epochs=6, verbose=2)
print("TRAINED_S", round(time.time() - began, 2), file=sys.stderr)

confusion = np.zeros((SIGNS, SIGNS), int)
if FIXED:
    guesses = model.predict(x_test, verbose=0).argmax(1)
    np.add.at(confusion, (y_test, guesses), 1)
else:
    for picture, kind in zip(x_test, y_test):
        guess = model.predict(picture[None], verbose=0).argmax()
        confusion[kind, guess] += 1
print(confusion)
print("FIT_S", round(time.time() - began, 2), file=sys.stderr)
print("LOSSES", history.history["loss"])
