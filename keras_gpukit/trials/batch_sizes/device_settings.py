"""Transfers the settings of TensorFlow's devices to another process."""

from __future__ import annotations

import os
from dataclasses import dataclass


@dataclass(frozen=True)
class DeviceSettings:
    """Settings of TensorFlow and Keras that a new process does not inherit.

    Attributes:
        gpus: Index of each visible GPU.
        grows: Whether memory growth is enabled, for each visible GPU.
        limits_mib: Memory limits in MiB of the logical devices of each visible GPU. None means no
            limit; the tuple is empty if no logical devices are configured.
        threads: Number of intra-op and inter-op threads; 0 lets TensorFlow choose.
        tensor_float_32: Whether TensorFloat-32 is enabled.
        policy: Name of Keras' global dtype policy.
    """

    gpus: tuple[int, ...]
    grows: tuple[bool, ...]
    limits_mib: tuple[tuple[int | None, ...], ...]
    threads: tuple[int, int]
    tensor_float_32: bool
    policy: str

    def apply(self) -> None:
        """Applies the settings if they differ; call it before TensorFlow starts its devices."""
        import keras
        import tensorflow as tf

        if current_settings() == self:
            return
        intra, inter = self.threads
        tf.config.threading.set_intra_op_parallelism_threads(intra)
        tf.config.threading.set_inter_op_parallelism_threads(inter)
        tf.config.experimental.enable_tensor_float_32_execution(self.tensor_float_32)
        keras.config.set_dtype_policy(self.policy)
        physical = tf.config.list_physical_devices("GPU")
        chosen = [physical[index] for index in self.gpus]
        tf.config.set_visible_devices(chosen, "GPU")
        for gpu, grows, limits in zip(chosen, self.grows, self.limits_mib, strict=True):
            if limits:
                parts = [tf.config.LogicalDeviceConfiguration(memory_limit=each) for each in limits]
                tf.config.set_logical_device_configuration(gpu, parts)
            elif grows:
                tf.config.experimental.set_memory_growth(gpu, True)

    @property
    def leave_memory(self) -> bool:
        """Whether these settings leave memory of each GPU to other processes."""
        pairs = zip(self.grows, self.limits_mib, strict=True)
        return all(grows or (limits and None not in limits) for grows, limits in pairs)


def current_settings() -> DeviceSettings:
    """Returns the settings of this process, without starting TensorFlow's devices."""
    import keras
    import tensorflow as tf

    physical = tf.config.list_physical_devices("GPU")
    gpus = tf.config.get_visible_devices("GPU")
    forced = os.environ.get("TF_FORCE_GPU_ALLOW_GROWTH", "").lower() == "true"
    return DeviceSettings(
        gpus=tuple(physical.index(gpu) for gpu in gpus),
        grows=tuple(forced or bool(tf.config.experimental.get_memory_growth(gpu)) for gpu in gpus),
        limits_mib=tuple(
            tuple(
                part.memory_limit for part in tf.config.get_logical_device_configuration(gpu) or ()
            )
            for gpu in gpus
        ),
        threads=(
            tf.config.threading.get_intra_op_parallelism_threads(),
            tf.config.threading.get_inter_op_parallelism_threads(),
        ),
        tensor_float_32=tf.config.experimental.tensor_float_32_execution_enabled(),
        policy=keras.config.dtype_policy().name,
    )
