"""The GPUs that TensorFlow uses in this process."""

from __future__ import annotations

from contextlib import closing
from typing import Any

from keras_gpukit.records.environment import GPUInfo
from keras_gpukit.sensors.cuda import cuda_uuids
from keras_gpukit.sensors.nvml import NVMLSensor


def visible_gpus() -> tuple[GPUInfo, ...]:
    """Returns each visible GPU, in TensorFlow's order; does not start TensorFlow's devices."""
    import tensorflow as tf

    physical = tf.config.list_physical_devices("GPU")
    uuids = cuda_uuids() if physical else ()
    uuid_of = dict(zip(physical, uuids, strict=True)) if len(uuids) == len(physical) else {}
    gpus = tuple(
        describe(index, device, uuid_of.get(device))
        for index, device in enumerate(tf.config.get_visible_devices("GPU"))
    )
    if not gpus:
        return ()
    try:
        with closing(NVMLSensor(gpus)) as sensor:
            return tuple(sensor.describe(gpu) for gpu in gpus)
    except Exception:  # no NVML: what TensorFlow and CUDA said is all there is
        return gpus


def describe(index: int, device: Any, uuid: str | None = None) -> GPUInfo:
    """Returns what TensorFlow says of a physical device.

    Args:
        index: Its position.
        device: As TensorFlow lists it.
        uuid: Its UUID, which TensorFlow does not say.
    """
    import tensorflow as tf

    try:
        details = tf.config.experimental.get_device_details(device)
    except Exception:  # a device that TensorFlow lists and cannot describe
        details = {}
    return GPUInfo(
        index=index,
        name=details.get("device_name"),
        uuid=uuid,
        compute_capability=details.get("compute_capability"),
    )
