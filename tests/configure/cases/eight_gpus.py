import os

import pytest
import tensorflow as tf
from stand_in import gpu_options, pretend, refused

from keras_gpukit import configure_gpus
from keras_gpukit.errors import AlreadyInitializedError

pretend(8)

# What TensorFlow itself would refuse only at its start is fixed.
tf.config.experimental.set_memory_growth(tf.config.list_physical_devices("GPU")[3], False)
tf.config.experimental.set_memory_growth(tf.config.list_physical_devices("GPU")[5], True)
with pytest.raises(ValueError, match="cannot differ"):
    gpu_options()

setup = configure_gpus(devices=[5, 1, 3], jit="auto", verbose=False)
assert gpu_options().visible_device_list == "1,3,5"
assert gpu_options().allow_growth
assert [gpu.index for gpu in setup.devices] == [1, 3, 5]
assert type(setup.strategy).__name__ == "MirroredStrategy"
assert setup.replicas == 3
assert setup.global_batch_size(32) == 96
assert setup.scaled_learning_rate(0.1) == 0.1 * 3
assert setup.jit_compile is False
assert setup.plan.value_of("mirrored_strategy") == ("/GPU:0", "/GPU:1", "/GPU:2")

# Making the strategy started the devices; the same again gives the same object.
assert configure_gpus(devices=[1, 3, 5], strategy="mirrored", verbose=False).strategy is (
    setup.strategy
)
refused(ValueError, "A process can have one MirroredStrategy")
refused(
    AlreadyInitializedError,
    "visible_gpus = (0, 1, 2, 3, 4, 5, 6, 7)",
    "The MirroredStrategy of this process",
    strategy="none",
)
os.environ["TF_FORCE_GPU_ALLOW_GROWTH"] = "false"
refused(AlreadyInitializedError, "TF_FORCE_GPU_ALLOW_GROWTH = true", devices=[1, 3, 5])
