import os

import keras
import tensorflow as tf
from stand_in import gpu_options, pretend, refused, uuid

from keras_gpukit import configure_gpus
from keras_gpukit.errors import AlreadyInitializedError

pretend(1)

asked = {"mixed_precision": "auto", "jit": "auto", "tf32": False, "soft_placement": False}
asked |= {"log_device_placement": True, "allocator": "cuda_malloc_async", "gpu_threads": 3}
asked |= {"seed": 7, "deterministic": False, "verbose": False}
setup = configure_gpus(**asked)
assert gpu_options().allow_growth
assert gpu_options().visible_device_list == "0"
assert keras.config.dtype_policy().name == "mixed_bfloat16"
assert tf.config.optimizer.get_jit() == "autoclustering"
assert setup.jit_compile is True
assert not tf.config.experimental.tensor_float_32_execution_enabled()
assert not tf.config.get_soft_device_placement()
assert tf.debugging.get_log_device_placement()
assert os.environ["TF_GPU_ALLOCATOR"] == "cuda_malloc_async"
assert os.environ["TF_GPU_THREAD_MODE"] == "gpu_private"
assert os.environ["TF_GPU_THREAD_COUNT"] == "3"
first = tf.random.uniform([])
assert first == (keras.utils.set_random_seed(7), tf.random.uniform([]))[1]

(gpu,) = setup.devices
assert (gpu.uuid, gpu.name, gpu.memory_bytes) == (uuid(0), "NVIDIA A100", 80 << 30)
assert gpu.compute_capability == (8, 0)
assert (setup.strategy, setup.replicas, setup.warnings) == (None, 1, ())
assert "grows" in str(setup)
assert uuid(0) in str(setup)

# By now a tensor has started the devices. Asking for the same again is fine.
again = configure_gpus(**asked)
assert again.actions == setup.actions

# TensorFlow listed a GPU and then started none, as it does with one that it finds too old.
(warning,) = again.warnings
assert "started 0 of the 1 logical GPUs" in warning
assert again.to_dict()["state"]["initialized"]

# What can still be set is set; the rest is an error that says what is and what is not.
refused(
    AlreadyInitializedError,
    "memory_limit_mib of GPU 0 = (8192,)",
    "memory_growth of GPU 0 = False",
    "a tensor: this process holds EagerTensor",
    "Call configure_gpus() before it",
    "done: tf32 = True",
    memory="8GiB",
    tf32=True,
)
assert tf.config.experimental.tensor_float_32_execution_enabled()
refused(AlreadyInitializedError, "TF_GPU_ALLOCATOR = cuda_malloc", allocator="cuda_malloc")
assert os.environ["TF_GPU_ALLOCATOR"] == "cuda_malloc_async"
refused(AlreadyInitializedError, "log_device_placement = False", log_device_placement=False)
optimizer = keras.optimizers.Adam()
refused(AlreadyInitializedError, "a Keras optimizer", "Adam", memory="all")
