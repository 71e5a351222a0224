# Source: GitHub, mrosol/Nonlincausality pull request #12 "ValueError - Same optimizer for different data" (Keras 3:
#   "Unknown variable: .. This optimizer can only be called for the variables it was originally built with").
# The user saw: a notebook exported to a script. The first network trains; the second one fails at once in fit with
#   "Unknown variable" and a list of names; the model looks all right, the data are the same.
# True cause: OPTIMIZER, one Adam object made in cell 2, is given to compile() of both models. It was built for the
#   variables of "small" and cannot serve those of "wide".
# First line of a good tool: fit of "wide" failed: its optimizer (OPTIMIZER, line) already belongs to the model "small";
#   make a new Adam for each compile().
# Must not say: shapes, data or the layer conv2d are wrong; memory; restart the kernel/update Keras as the cure; any
#   finding on speed first.
# FIXED=1: a new Adam for the second model. Kind: failure, notebook.
import os, sys, time

import keras
import numpy as np

FIXED = os.environ.get("FIXED") == "1"

# In[1]: data
keras.utils.set_random_seed(1)
rng = np.random.default_rng(0)
pictures = rng.random((3_072, 28, 28, 1)).astype("float32")
classes = (pictures[:, :14].mean((1, 2, 3)) > pictures[:, 14:].mean((1, 2, 3))).astype("int32")

# In[2]: settings for the whole notebook
EPOCHS, BATCH = 6, 64
OPTIMIZER = keras.optimizers.Adam(learning_rate=1e-3)
LOSS = "sparse_categorical_crossentropy"

# In[3]: a small network first
small = keras.Sequential([
    keras.Input((28, 28, 1)),
    keras.layers.Conv2D(16, 3, activation="relu"),
    keras.layers.Conv2D(16, 3, activation="relu"),
    keras.layers.GlobalAveragePooling2D(),
    keras.layers.Dense(2, activation="softmax"),
], name="small")
small.compile(OPTIMIZER, LOSS, metrics=["accuracy"])

# In[4]:
began = time.time()
history = small.fit(pictures, classes, batch_size=BATCH, epochs=EPOCHS, validation_split=0.1, verbose=2)
print("LOSSES", history.history["loss"], flush=True)

# In[5]: the same, wider
wide = keras.Sequential([
    keras.Input((28, 28, 1)),
    keras.layers.Conv2D(24, 3, activation="relu"),
    keras.layers.Conv2D(32, 3, activation="relu"),
    keras.layers.GlobalAveragePooling2D(),
    keras.layers.Dense(2, activation="softmax"),
], name="wide")
wide.compile(keras.optimizers.Adam(learning_rate=1e-3) if FIXED else OPTIMIZER, LOSS, metrics=["accuracy"])

# In[6]:
history = wide.fit(pictures, classes, batch_size=BATCH, epochs=EPOCHS, validation_split=0.1, verbose=2)
print("FIT_S", round(time.time() - began, 2), file=sys.stderr)
print("LOSSES", history.history["loss"])
