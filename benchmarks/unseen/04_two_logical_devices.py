# Source: GitHub, tensorflow/tensorflow #41213 "MirroredStrategy slows down training", #35095 "MirroredStrategy compared
#   to OneDeviceStrategy slower", #41654 "tensorflow Multi-GPU vs CPU mirroredstrategy".
# The user saw: "two devices should be nearly twice as fast": the processor was split into two logical devices, as in the
#   guide, and MirroredStrategy reports 2 replicas; training is slower than without.
# True cause: the two logical devices are the same processor: no computing power is added, but every step of 64 rows is
#   split in two, the gradients of 26 variables are summed between the replicas, and every variable is kept and updated twice.
# First line of a good tool: MirroredStrategy over 2 logical CPUs of one processor makes this run slower: train without
#   a strategy (logical devices are for testing), about .. % saved. At the least: the replicas' overhead in each step
#   of 64 rows (32 each) dominates.
# Must not say: input-bound; add devices; only a larger model; other processes as the cause; a crash on PerReplica.
# FIXED=1: no strategy, no logical devices. Kind: speed, several devices.
import contextlib, os, sys, time

import keras
import numpy as np
import tensorflow as tf

FIXED = os.environ.get("FIXED") == "1"
keras.utils.set_random_seed(1)

if FIXED:
    scope = contextlib.nullcontext()
else:
    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
    strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
    print("replicas:", strategy.num_replicas_in_sync)
    scope = strategy.scope()

rng = np.random.default_rng(0)
signals = rng.normal(size=(8_192, 64)).astype("float32")
states = (np.abs(signals[:, :4]).sum(1) > 3).astype("int32") + (signals[:, 5] > 0)
ds = tf.data.Dataset.from_tensor_slices((signals, states)).cache().shuffle(8_192, seed=2).batch(64).prefetch(2)

with scope:
    layers = [keras.Input((64,))]
    for _ in range(6):
        layers += [keras.layers.Dense(96), keras.layers.BatchNormalization(), keras.layers.ReLU()]
    model = keras.Sequential(layers + [keras.layers.Dense(3, activation="softmax")])
    model.compile(keras.optimizers.Adam(1e-3), "sparse_categorical_crossentropy", metrics=["accuracy"])

began = time.time()
history = model.fit(ds, epochs=6, verbose=2)
print("FIT_S", round(time.time() - began, 2), file=sys.stderr)
print("LOSSES", history.history["loss"])
