"""TensorFlow numbers its GPUs by their physical order, whatever order they were made visible in."""

import tensorflow as tf
from stand_in import gpu_options, pretend, uuid

from keras_gpukit.sensors.devices import visible_gpus

pretend(4)
physical = tf.config.list_physical_devices("GPU")


def found():
    return {gpu.uuid: gpu.logical for gpu in visible_gpus()}


tf.config.set_visible_devices([physical[3], physical[1]], "GPU")
assert [gpu.name[-1] for gpu in tf.config.get_visible_devices("GPU")] == ["3", "1"]
assert gpu_options().visible_device_list == "1,3"  # what TensorFlow starts
assert found() == {uuid(1): (0,), uuid(3): (1,)}

# Logical GPUs: three on the second physical GPU, one on the last.
limit = tf.config.LogicalDeviceConfiguration(memory_limit=1024)
tf.config.set_logical_device_configuration(physical[1], [limit] * 3)
assert found() == {uuid(1): (0, 1, 2), uuid(3): (3,)}
split = gpu_options().experimental.virtual_devices
assert [list(each.memory_limit_mb) for each in split] == [[1024] * 3, []]

# Ordinals of the caller's own mix the parts of GPUs.
first = tf.config.LogicalDeviceConfiguration(memory_limit=1024, experimental_device_ordinal=1)
tf.config.set_logical_device_configuration(physical[3], [first])
assert found() == {uuid(1): None, uuid(3): None}
