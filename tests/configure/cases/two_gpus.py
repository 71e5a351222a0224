import os
import warnings

import keras
from stand_in import GIB, gpu_options, pretend, refused, uuid

from keras_gpukit import configure_gpus
from keras_gpukit.distributed.strategies import mirrored_devices
from keras_gpukit.errors import AlreadyInitializedError, GPUKitWarning

os.environ["TF_FORCE_GPU_ALLOW_GROWTH"] = "false"
os.environ["TF_GPU_THREAD_MODE"] = "global"
pretend(2, name="Tesla V100", capability=(7, 0), memory_bytes=32 * GIB)


def limits():
    return [list(gpu.memory_limit_mb) for gpu in gpu_options().experimental.virtual_devices]


quiet = {"strategy": "none", "verbose": False}

# A refusal leaves everything as it was.
before = gpu_options()
for arguments, words in [
    ({"devices": [2]}, "TensorFlow lists 2"),
    ({"devices": ["GPU-ffff"]}, "is none of TensorFlow's GPUs"),
    ({"devices": ["GPU-0000"]}, "fits more than one GPU"),
    ({"devices": [0, uuid(0)]}, "names a GPU twice"),
    ({"memory": ["1GiB"]}, "one entry for each GPU used, here 2"),
    ({"memory": "33GiB"}, "has 32 GiB, less than the 33 GiB"),
    ({"logical_gpus": ["20GiB", "20GiB"]}, "less than the 40 GiB"),
    ({"devices": [0], "logical_gpus": {1: 2}}, "only GPUs that are used"),
    ({"jit": True, "strategy": "auto"}, "XLA cannot compile a step that spans devices"),
]:
    arguments = {"tf32": False, "allocator": "cuda_malloc", **quiet, **arguments}
    refused(ValueError, words, "Received: ", **arguments)
assert gpu_options() == before
assert "TF_GPU_ALLOCATOR" not in os.environ

# Arguments win over the environment, which is said.
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    setup = configure_gpus(gpu_threads="gpu_shared", mixed_precision="auto", **quiet)
assert [w.category for w in caught] == [GPUKitWarning] * 2
assert caught[0].filename == __file__
assert "TF_GPU_THREAD_MODE=global" in setup.warnings[0]
assert "TF_FORCE_GPU_ALLOW_GROWTH=false" in setup.warnings[1]
assert os.environ["TF_FORCE_GPU_ALLOW_GROWTH"] == "true"
assert os.environ["TF_GPU_THREAD_MODE"] == "gpu_shared"
assert gpu_options().allow_growth
assert setup.state.dtype_policy == "mixed_float16"
del os.environ["TF_FORCE_GPU_ALLOW_GROWTH"]

# UUIDs name GPUs, whole or in part.
setup = configure_gpus(devices=uuid(1), **quiet)
assert gpu_options().visible_device_list == "1"
assert [gpu.uuid for gpu in setup.devices] == [uuid(1)]
assert configure_gpus(devices="GPU-00000001", **quiet).devices == setup.devices
assert configure_gpus(devices="none", **quiet).causes[0].code == "not_wanted"
assert gpu_options().visible_device_list == ""

# Until TensorFlow starts its devices, settings may change: sizes override growth, with a warning.
setup = configure_gpus(memory=["4GiB", "all"], **quiet)
assert limits() == [[4096], []]
assert setup.state.growth == (False, False)
assert setup.warnings == ()
assert "4 GiB" in str(setup)
setup = configure_gpus(memory="8GiB", logical_gpus={0: 2, 1: 1}, **quiet)
assert limits() == [[4096, 4096], [8192]]
assert setup.plan.logical_gpus == 3
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    configure_gpus(logical_gpus=["1GiB", "2GiB"], **quiet)
assert limits() == [[1024, 2048]] * 2
assert 'memory="growth" does not apply' in str(caught[0].message)
setup = configure_gpus(memory="all", logical_gpus=2, **quiet)
assert limits() == [[14745, 14745]] * 2  # nine tenths of 32 GiB, halved

# Sizes cannot be undone, so growth is refused where TensorFlow would drop it without a word.
refused(ValueError, "can change but not undo", **quiet)

# Too late, no strategy is made, nor blamed for having started the devices.
optimizer = keras.optimizers.SGD()
refused(
    AlreadyInitializedError, "a Keras optimizer", "done: tf32 = False.", memory="2GiB", tf32=False
)
assert mirrored_devices() is None
