import keras
import tensorflow as tf
from stand_in import raises

from keras_gpukit import configure_gpus

(cpu,) = tf.config.list_physical_devices("CPU")
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)

assert configure_gpus(verbose=False).strategy is None  # without a GPU, "auto" stays on one CPU
raises(
    ValueError,
    "XLA cannot compile a step that spans devices",
    call=lambda: configure_gpus(strategy="mirrored", jit=True),
)
setup = configure_gpus(strategy="mirrored", verbose=False)
assert setup.replicas == 2
assert configure_gpus(strategy="mirrored", verbose=False).strategy is setup.strategy
assert configure_gpus(strategy=setup.strategy, verbose=False).strategy is setup.strategy
with setup.scope():
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse", steps_per_execution=2, jit_compile=setup.jit_compile)
model.fit(tf.ones([16, 3]), tf.ones([16, 1]), batch_size=4, verbose=0)

other = tf.distribute.MirroredStrategy(["/CPU:0"])
raises(
    ValueError,
    "A process can have one MirroredStrategy",
    call=lambda: configure_gpus(strategy=other),
)
