"""Physics-informed network for heat flow through a kiln wall (1-D heat equation)."""
import os
import sys
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
import numpy as np
import tensorflow as tf
import keras
from keras import layers

START = time.perf_counter()
SEED = 3
ALPHA = 0.08
INTERIOR = 256
EDGE = 64
STEPS = 200
PROBES = 9600

keras.utils.set_random_seed(SEED)
rng = np.random.default_rng(SEED)


def build_network():
    inputs = keras.Input((2,))
    h = inputs
    for _ in range(3):
        h = layers.Dense(48, activation="tanh", kernel_initializer="glorot_normal")(h)
    return keras.Model(inputs, layers.Dense(1)(h), name="temperature")


network = build_network()
optimizer = keras.optimizers.Adam(keras.optimizers.schedules.ExponentialDecay(3e-3, 80, 0.8))
optimizer.build(network.trainable_variables)


def second_derivatives(points):
    with tf.GradientTape() as outer:
        outer.watch(points)
        with tf.GradientTape() as inner:
            inner.watch(points)
            u = network(points, training=True)
        first = inner.gradient(u, points)
    if os.environ.get("FIXED") == "1":
        hessian = outer.batch_jacobian(first, points)
    else:
        hessian = tf.einsum("iaib->iab", outer.jacobian(first, points))
    return u, first, hessian


@tf.function
def train_step(interior, start, start_value, walls, wall_value):
    with tf.GradientTape() as tape:
        _, first, hessian = second_derivatives(interior)
        residual = first[:, 1] - ALPHA * hessian[:, 0, 0]
        loss_pde = tf.reduce_mean(tf.square(residual))
        loss_start = tf.reduce_mean(tf.square(network(start, training=True) - start_value))
        loss_wall = tf.reduce_mean(tf.square(network(walls, training=True) - wall_value))
        loss = loss_pde + 10.0 * loss_start + 10.0 * loss_wall
    gradients = tape.gradient(loss, network.trainable_variables)
    optimizer.apply(gradients, network.trainable_variables)
    return loss, loss_pde


def draw_points():
    interior = rng.uniform(0, 1, (INTERIOR, 2)).astype("float32")
    start = np.stack([rng.uniform(0, 1, EDGE), np.zeros(EDGE)], axis=1).astype("float32")
    start_value = np.sin(np.pi * start[:, :1]).astype("float32")
    side = rng.integers(0, 2, EDGE).astype("float32")
    walls = np.stack([side, rng.uniform(0, 1, EDGE)], axis=1).astype("float32")
    wall_value = np.zeros((EDGE, 1), dtype="float32")
    return [tf.constant(a) for a in (interior, start, start_value, walls, wall_value)]


def thermocouples():
    where = rng.uniform(0, 1, (PROBES, 2)).astype("float32")
    clean = np.exp(-ALPHA * np.pi**2 * where[:, 1]) * np.sin(np.pi * where[:, 0])
    return where, (clean + rng.normal(0, 0.15, PROBES)).astype("float32")[:, None]


where, reading = thermocouples()
network.compile(optimizer=keras.optimizers.Adam(1e-3), loss="mse")
network.fit(where, reading, batch_size=32, epochs=10, verbose=2)

history = []
for step in range(STEPS):
    loss, loss_pde = train_step(*draw_points())
    history.append((float(loss), float(loss_pde)))
    if step % 50 == 0:
        print(f"step {step:4d}  loss {history[-1][0]:.5f}  pde {history[-1][1]:.5f}")

grid = np.stack(np.meshgrid(np.linspace(0, 1, 41), np.linspace(0, 1, 41)), axis=-1)
grid = grid.reshape(-1, 2).astype("float32")
exact = np.exp(-ALPHA * np.pi**2 * grid[:, 1]) * np.sin(np.pi * grid[:, 0])
found = network.predict(grid, batch_size=512, verbose=0)[:, 0]
print("relative error", round(float(np.linalg.norm(found - exact) / np.linalg.norm(exact)), 4))

print(f"{time.perf_counter() - START:.1f} s after imports", file=sys.stderr)
