"""The GPUs that TensorFlow uses in this process."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from keras_gpukit.records.environment import GPUInfo
from keras_gpukit.records.installation import Driver, DriverGPU
from keras_gpukit.sensors.cuda import cuda_uuids
from keras_gpukit.sensors.nvml import read_driver


def visible_gpus() -> tuple[GPUInfo, ...]:
    """Returns each visible GPU, in TensorFlow's order; does not start TensorFlow's devices."""
    import tensorflow as tf

    physical = tf.config.list_physical_devices("GPU")
    visible = tf.config.get_visible_devices("GPU")
    listed = listed_gpus(read_driver()) if visible else ()
    return tuple(
        replace(listed[physical.index(device)], index=index) for index, device in enumerate(visible)
    )


def listed_gpus(driver: Driver) -> tuple[GPUInfo, ...]:
    """Returns each GPU that TensorFlow lists, hidden ones included.

    Args:
        driver: What NVML says.
    """
    import tensorflow as tf

    physical = tf.config.list_physical_devices("GPU")
    gpus = tuple(_describe(index, device) for index, device in enumerate(physical))
    return identify(gpus, driver, cuda_uuids()) if gpus else ()


def identify(
    gpus: tuple[GPUInfo, ...], driver: Driver, uuids: tuple[str, ...]
) -> tuple[GPUInfo, ...]:
    """Adds to the GPUs that TensorFlow lists what the driver knows of them.

    Args:
        gpus: In TensorFlow's order.
        driver: What NVML says.
        uuids: What `cuda_uuids` returned.

    Returns:
        The GPUs; as they came where it is unknown which of the driver's each one is.
    """
    if not uuids and len(gpus) == len(driver.gpus) == 1 and driver.gpus[0].uuid:
        uuids = (driver.gpus[0].uuid,)
    if len(uuids) != len(gpus):
        return gpus
    by_uuid = {gpu.uuid: gpu for gpu in driver.gpus}
    known = []
    for gpu, uuid in zip(gpus, uuids, strict=True):
        found = by_uuid.get(uuid, DriverGPU(gpu.index))
        known.append(
            replace(
                gpu,
                uuid=uuid,
                name=gpu.name or found.name,
                memory_bytes=found.memory_bytes,
                compute_capability=gpu.compute_capability or found.compute_capability,
            )
        )
    return tuple(known)


def _describe(index: int, device: Any) -> GPUInfo:
    """What TensorFlow says of a physical device."""
    import tensorflow as tf

    try:
        details = tf.config.experimental.get_device_details(device)
    except Exception:  # a device that TensorFlow lists and cannot describe
        details = {}
    return GPUInfo(
        index=index,
        name=details.get("device_name"),
        compute_capability=details.get("compute_capability"),
    )
