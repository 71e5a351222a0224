# Source: GitHub, tensorflow/tensorflow #27195 "Eagerness/Distribute Strategies performance issues" (1,000 steps: 2.6 s
#   with tf.function, 64 s without, 7 s without a strategy) and #30855 (the replicas run one after the other).
# The user saw: the own training loop was changed for two devices with MirroredStrategy. Now it is slower than on one,
#   and the devices seem to work in turns.
# True cause: strategy.run is called outside of a tf.function: per step, Python starts each operation of two replicas
#   (in threads that wait for each other), of the all-reduce and of the optimizer.
# First line of a good tool: this loop calls strategy.run (line) eagerly: Python between the operations takes most of
#   each step, for 2 replicas; put it into a @tf.function.
# Must not say: input-bound (the data are in memory); the batch is too small for two devices as the first line; remove
#   the strategy as the only advice; no fit was found, nothing to say.
# FIXED=1: @tf.function around the step. Kind: own loop, several devices.
import os, sys, time

import keras
import numpy as np
import tensorflow as tf

FIXED = os.environ.get("FIXED") == "1"
cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
keras.utils.set_random_seed(1)
BATCH = 128

rng = np.random.default_rng(0)
x = rng.normal(size=(2_560, 32)).astype("float32")
y = np.sin(x[:, :4]).sum(1, keepdims=True).astype("float32")

strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
data = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(len(x), seed=2).batch(BATCH, drop_remainder=True)
data = strategy.experimental_distribute_dataset(data.prefetch(2))

with strategy.scope():
    model = keras.Sequential([
        keras.Input((32,)),
        *[keras.layers.Dense(64, activation="relu") for _ in range(4)],
        keras.layers.Dense(1),
    ])
    optimizer = keras.optimizers.Adam(0.001)
    optimizer.build(model.trainable_variables)


def replica_step(rows, wanted):
    with tf.GradientTape() as tape:
        error = tf.reduce_sum((model(rows, training=True) - wanted) ** 2) / BATCH
    gradients = tape.gradient(error, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
    return error


def step(batch):
    parts = strategy.run(replica_step, args=batch)
    return strategy.reduce(tf.distribute.ReduceOp.SUM, parts, axis=None)


if FIXED:
    step = tf.function(step)

losses = []
began = time.time()
for epoch in range(6):
    total = 0.0
    for batch in data:
        total += float(step(batch))
    losses.append(total / (len(x) // BATCH))
    print("epoch", epoch, "loss", round(losses[-1], 4), flush=True)
print("FIT_S", round(time.time() - began, 2), file=sys.stderr)
print("LOSSES", losses)
