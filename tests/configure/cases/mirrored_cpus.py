import keras
import pytest
import tensorflow as tf
from stand_in import refused

from keras_gpukit import ScaledLearningRate, configure_gpus

(cpu,) = tf.config.list_physical_devices("CPU")
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)

assert configure_gpus(verbose=False).strategy is None  # without a GPU, "auto" stays on one CPU
refused(ValueError, "XLA cannot compile a step that spans devices", strategy="mirrored", jit=True)
setup = configure_gpus(strategy="mirrored", verbose=False)
assert setup.replicas == 2
assert configure_gpus(strategy="mirrored", verbose=False).strategy is setup.strategy
assert configure_gpus(strategy=setup.strategy, verbose=False).strategy is setup.strategy
with setup.scope():
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse", steps_per_execution=2, jit_compile=setup.jit_compile)
model.fit(tf.ones([16, 3]), tf.ones([16, 1]), batch_size=4, verbose=0)

# Its replicas scale a learning rate.
with setup.scope():
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])
    model.compile(keras.optimizers.SGD(0.001), "mse", jit_compile=setup.jit_compile)
seen = []


def note(batch, logs):
    seen.append(float(keras.ops.convert_to_numpy(model.optimizer.learning_rate)))


notes = keras.callbacks.LambdaCallback(on_train_batch_end=note)
scaled = [ScaledLearningRate(0.1, warmup_updates=2), notes]
model.fit(tf.ones([16, 3]), tf.ones([16, 1]), batch_size=4, verbose=0, callbacks=scaled)
assert seen == pytest.approx([0.1, 0.15, 0.2, 0.2], rel=1e-5)

other = tf.distribute.MirroredStrategy(["/CPU:0"])
refused(ValueError, "A process can have one MirroredStrategy", strategy=other)
