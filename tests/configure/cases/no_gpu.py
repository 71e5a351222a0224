import contextlib
import io
import os
import sys

import keras
import tensorflow as tf
from stand_in import FakeNVML, refused

from keras_gpukit import configure_gpus
from keras_gpukit.errors import NoGPUError

sys.modules["pynvml"] = FakeNVML(error="LibraryNotFound")

printed = io.StringIO()
with contextlib.redirect_stdout(printed):
    setup = configure_gpus(memory="8GiB", allocator="cuda_malloc_async", mixed_precision="auto")
assert "No GPU is used" in printed.getvalue()
assert "driver" in printed.getvalue()
assert "Without a GPU these do nothing" in printed.getvalue()
assert (setup.devices, setup.strategy, setup.replicas) == ((), None, 1)
assert setup.causes
assert (setup.jit_compile, setup.state.dtype_policy) == ("auto", "float32")
assert not setup.state.initialized
assert "TF_GPU_ALLOCATOR" not in os.environ
assert setup.plan.not_applied == ("memory=8589934592", "allocator='cuda_malloc_async'")
refused(NoGPUError, "A GPU is required.", "driver", require_gpu=True)

with setup.scope():
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse", jit_compile=setup.jit_compile)
model.fit(tf.ones([8, 3]), tf.ones([8, 1]), verbose=0)

# Started by now: with no GPU there is nothing that comes too late, but for the log of placement.
configure_gpus(jit=True, verbose=False)
assert tf.config.optimizer.get_jit() == "autoclustering"
off = {"soft_placement": False, "jit": False, "tf32": False, "verbose": False}
asked = {"mixed_precision": "mixed_bfloat16", "strategy": "one_device"}
setup = configure_gpus(deterministic=True, seed=1, **asked, **off)
assert not tf.config.get_soft_device_placement()
assert not tf.config.optimizer.get_jit()
assert not tf.config.experimental.tensor_float_32_execution_enabled()
assert keras.config.dtype_policy().name == "mixed_bfloat16"
assert setup.state.deterministic
assert type(setup.strategy).__name__ == "OneDeviceStrategy"
assert setup.strategy.extended.worker_devices[0].endswith("CPU:0")
assert len(setup.warnings) == 1  # the policy is one for GPUs
setup = configure_gpus(strategy="mirrored", verbose=False)
assert setup.strategy is None
assert any("no GPU to mirror over" in warning for warning in setup.warnings)
assert any("deterministic" in warning for warning in setup.warnings)
odd = type("Odd", (), {"scope": id, "num_replicas_in_sync": 1})()
refused(TypeError, "must be a tf.distribute.Strategy", strategy=odd)
