"""Reads the machine and TensorFlow's settings; changes and starts nothing."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any

from keras_gpukit.frameworks import tf_runtime
from keras_gpukit.records.installation import Build, CUDALibrary, Machine, TensorFlowState
from keras_gpukit.records.names import OF_GPUS
from keras_gpukit.sensors import cuda_libraries
from keras_gpukit.sensors.devices import listed_gpus
from keras_gpukit.sensors.driver import read_driver


def read_machine() -> Machine:
    """Reads everything that a plan is based on, except the strategies of this process."""
    import keras

    driver = read_driver()
    build = read_build()
    return Machine(
        gpus=listed_gpus(driver),
        state=read_state(),
        build=build,
        driver=driver,
        libraries=read_libraries(build),
        environment=read_environment(),
        platform=sys.platform,
        keras_backend=keras.config.backend(),
    )


def read_state() -> TensorFlowState:
    """Reads the current settings of TensorFlow and Keras."""
    import keras
    import tensorflow as tf

    gpus = tf.config.list_physical_devices("GPU")
    visible = tf.config.get_visible_devices("GPU")
    growth = tuple(tf.config.experimental.get_memory_growth(gpu) for gpu in gpus)
    cpus = tf.config.list_physical_devices("CPU")
    grows = tf_runtime.grows_memory() if gpus else None
    wanted = any(growth[gpus.index(gpu)] for gpu in visible)
    initialized = tf_runtime.is_initialized()
    return TensorFlowState(
        visible_gpus=tuple(gpus.index(gpu) for gpu in visible),
        growth=growth,
        memory_limit_mib=tuple(_memory_limit_mib(gpu) for gpu in gpus),
        logical_cpus=len(tf.config.get_logical_device_configuration(cpus[0]) or [None]),
        soft_placement=_ask(tf.config.get_soft_device_placement),
        log_device_placement=_ask(tf.debugging.get_log_device_placement),
        jit=_ask(tf.config.optimizer.get_jit),
        tf32=tf.config.experimental.tensor_float_32_execution_enabled(),
        deterministic=tf_runtime.is_deterministic(),
        dtype_policy=keras.config.dtype_policy().name,
        initialized=initialized,
        logical_gpus=len(tf.config.list_logical_devices("GPU")) if initialized else None,
        growth_dropped=None if grows is None else wanted and not grows,
    )


def read_build() -> Build:
    """Reads how TensorFlow was built."""
    import tensorflow as tf

    info = tf.sysconfig.get_build_info()
    cuda = bool(info.get("is_cuda_build"))
    needs: dict[str, str | None] = {}
    if cuda and not (info.get("cuda_version") and info.get("cudnn_version")):
        # From TensorFlow 2.22 on the versions are only in what its extra asks for.
        needs = {each.name: each.lowest for each in cuda_libraries.read_packages()}
    return Build(
        cuda=cuda,
        cuda_version=info.get("cuda_version") or _lowest(needs, "nvidia-cuda-runtime"),
        cudnn_version=info.get("cudnn_version") or _lowest(needs, "nvidia-cudnn"),
        compute_capabilities=tuple(info.get("cuda_compute_capabilities", ())),
    )


def _lowest(needs: dict[str, str | None], package: str) -> str | None:
    return next((each for name, each in needs.items() if name.startswith(package)), None)


def read_libraries(build: Build) -> tuple[CUDALibrary, ...]:
    """Looks for the CUDA libraries that this TensorFlow needs."""
    if not build.cuda or sys.platform != "linux":
        return ()
    names = cuda_libraries.needed_libraries(build.cuda_version, build.cudnn_version)
    return cuda_libraries.find_libraries(names)


def read_environment() -> dict[str, str]:
    """Reads the environment variables that affect GPUs and are set."""
    return {name: os.environ[name] for name in OF_GPUS if name in os.environ}


def _ask(getter: Callable[[], Any]) -> bool | None:
    try:
        return bool(getter())
    except ValueError:  # growth was set to differ between GPUs
        return None


def _memory_limit_mib(gpu: Any) -> tuple[int, ...] | None:
    import tensorflow as tf

    parts = tf.config.get_logical_device_configuration(gpu) or ()
    sizes = [int(part.memory_limit) for part in parts if part.memory_limit is not None]
    return tuple(sizes) or None
