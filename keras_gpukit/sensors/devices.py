"""The GPUs that TensorFlow uses in this process."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from keras_gpukit.records.environment import GPUInfo
from keras_gpukit.records.installation import Driver
from keras_gpukit.sensors import tf_private
from keras_gpukit.sensors.driver import read_driver
from keras_gpukit.sensors.identity import cuda_devices, identify


def visible_gpus() -> tuple[GPUInfo, ...]:
    """Returns each visible GPU in TensorFlow's order, without starting TensorFlow's devices."""
    import tensorflow as tf

    visible = visible_devices()
    if not visible:
        return ()
    physical = tf.config.list_physical_devices("GPU")
    listed = listed_gpus(read_driver())
    return tuple(
        replace(listed[physical.index(device)], index=index, logical=logical)
        for index, (device, logical) in enumerate(zip(visible, logical_gpus(visible), strict=True))
    )


def visible_devices() -> list[Any]:
    """Returns TensorFlow's visible physical GPUs in the order in which it numbers them.

    `tf.config.get_visible_devices` repeats the order of `set_visible_devices`, which TensorFlow
    ignores: the lower physical number always comes first.
    """
    import tensorflow as tf

    visible = tf.config.get_visible_devices("GPU")
    return [device for device in tf.config.list_physical_devices("GPU") if device in visible]


def logical_gpus(visible: Sequence[Any]) -> list[tuple[int, ...] | None]:
    """Returns the numbers of the logical GPUs on each physical one; None if unknown."""
    import tensorflow as tf

    numbers: list[tuple[int, ...] | None] = []
    count = 0
    for device in visible:
        parts = tf.config.get_logical_device_configuration(device) or [None]
        # If the caller sets ordinals, the numbers mix the parts of different GPUs.
        if any(getattr(part, "experimental_device_ordinal", None) is not None for part in parts):
            return [None] * len(visible)
        numbers.append(tuple(range(count, count + len(parts))))
        count += len(parts)
    # TensorFlow drops GPUs that it considers too weak, but only when it starts its devices.
    if tf_private.is_initialized() and len(tf.config.list_logical_devices("GPU")) != count:
        return [None] * len(visible)
    return numbers


def listed_gpus(driver: Driver) -> tuple[GPUInfo, ...]:
    """Returns each GPU that TensorFlow lists, hidden ones included."""
    import tensorflow as tf

    physical = tf.config.list_physical_devices("GPU")
    gpus = tuple(_describe(index, device) for index, device in enumerate(physical))
    return identify(gpus, driver, cuda_devices(), os.environ) if gpus else ()


def _describe(index: int, device: Any) -> GPUInfo:
    """Returns what TensorFlow reports about a physical device."""
    import tensorflow as tf

    try:
        details = tf.config.experimental.get_device_details(device)
    except Exception:  # a device that TensorFlow lists but cannot describe
        details = {}
    return GPUInfo(
        index=index,
        name=details.get("device_name"),
        compute_capability=details.get("compute_capability"),
    )
