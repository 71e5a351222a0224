"""Logical CPUs make TensorFlow drop the growth of GPUs; only the environment variable helps."""

import os

import tensorflow as tf
from stand_in import gpu_options, pretend

from keras_gpukit import configure_gpus

pretend(1)

(cpu,) = tf.config.list_physical_devices("CPU")
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
setup = configure_gpus(verbose=False)
assert not gpu_options().allow_growth  # the fault that makes this necessary
assert os.environ["TF_FORCE_GPU_ALLOW_GROWTH"] == "true"
assert setup.warnings == ()
assert setup.strategy is None
