"""Splitting any device makes TensorFlow drop the growth of all; an environment variable helps."""

import os

import tensorflow as tf
from stand_in import gpu_options, pretend, refused

from keras_gpukit import configure_gpus
from keras_gpukit.errors import AlreadyInitializedError

pretend(2)
(cpu,) = tf.config.list_physical_devices("CPU")
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
setup = configure_gpus(devices=0, verbose=False)
assert not gpu_options().allow_growth  # the fault that makes this necessary
assert os.environ["TF_FORCE_GPU_ALLOW_GROWTH"] == "true"
assert setup.warnings == ()
assert setup.strategy is None

# The split device need not even be used.
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()])
configure_gpus(devices=0, memory="8GiB", verbose=False)
del os.environ["TF_FORCE_GPU_ALLOW_GROWTH"]
configure_gpus(devices=1, verbose=False)
assert not gpu_options().allow_growth
assert os.environ["TF_FORCE_GPU_ALLOW_GROWTH"] == "true"

# What leaves no trace is not guessed at.
tf.config.list_logical_devices()
refused(AlreadyInitializedError, "is unknown", devices=1, memory="all")
