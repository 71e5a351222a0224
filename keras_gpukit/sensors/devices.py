"""The GPUs that TensorFlow uses in this process."""

from __future__ import annotations

from keras_gpukit.records.environment import GPUInfo
from keras_gpukit.sensors.nvml import NVMLSensor


def visible_gpus() -> tuple[GPUInfo, ...]:
    """Returns each visible GPU, in TensorFlow's order; does not start TensorFlow's devices."""
    import tensorflow as tf

    gpus = []
    for index, device in enumerate(tf.config.get_visible_devices("GPU")):
        try:
            details = tf.config.experimental.get_device_details(device)
        except Exception:  # a device that TensorFlow lists and cannot describe
            details = {}
        gpus.append(
            GPUInfo(
                index=index,
                name=details.get("device_name"),
                compute_capability=details.get("compute_capability"),
            )
        )
    if not gpus:
        return ()
    try:
        sensor = NVMLSensor([gpu.name for gpu in gpus])
    except Exception:  # no NVML: what TensorFlow said is all there is
        return tuple(gpus)
    described = tuple(sensor.describe(gpu) for gpu in gpus)
    sensor.close()
    return described
