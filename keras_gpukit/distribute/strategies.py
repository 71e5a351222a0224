"""The process' tf.distribute strategies.

Two `MirroredStrategy` objects in one process collide: their collectives share key numbers, so
that models of different shapes meet in one all-reduce (`Shape mismatch in the collective
instance`). So a process has one, and later calls return the same.
"""

from __future__ import annotations

from typing import Any

_mirrored: Any = None
_mirrored_devices: tuple[str, ...] | None = None


def mirrored(devices: tuple[str, ...]) -> Any:
    """Returns the process' `tf.distribute.MirroredStrategy`, made at the first call.

    Args:
        devices: Such as ("/GPU:0", "/GPU:1").

    Raises:
        ValueError: If this process has one over other devices.
    """
    global _mirrored, _mirrored_devices
    import tensorflow as tf

    if _mirrored is None:
        # On CPUs TensorFlow's default collectives fail once steps_per_execution exceeds 1.
        on_cpus = all("CPU" in device for device in devices)
        reduction = tf.distribute.ReductionToOneDevice() if on_cpus else None
        _mirrored = tf.distribute.MirroredStrategy(devices, cross_device_ops=reduction)
        _mirrored_devices = devices
    elif devices != _mirrored_devices:
        raise ValueError(
            "A process can have one MirroredStrategy, and this one's is over "
            f"{_mirrored_devices}. Received: devices={devices!r}"
        )
    return _mirrored


def one_device(devices: tuple[str]) -> Any:
    """Returns a `tf.distribute.OneDeviceStrategy`.

    Args:
        devices: The one device, such as ("/GPU:0",).
    """
    import tensorflow as tf

    return tf.distribute.OneDeviceStrategy(devices[0])


def adopt(strategy: Any) -> Any:
    """Takes a strategy that was made elsewhere, and returns it.

    A `MirroredStrategy` becomes the one that `mirrored` returns from then on.

    Raises:
        TypeError: If it is no `tf.distribute.Strategy`.
        ValueError: If it is a `MirroredStrategy` and this process has another.
    """
    global _mirrored, _mirrored_devices
    import tensorflow as tf

    if not isinstance(strategy, tf.distribute.Strategy):
        raise TypeError(
            f"`strategy` must be a tf.distribute.Strategy. Received: strategy={strategy!r}"
        )
    if isinstance(strategy, tf.distribute.MirroredStrategy):
        if _mirrored not in (None, strategy):
            raise ValueError(
                "A process can have one MirroredStrategy, and this one has another, over "
                f"{_mirrored_devices}. Received: strategy={strategy!r}"
            )
        # "/job:localhost/replica:0/task:0/device:GPU:0" is what `mirrored` is asked for as "/GPU:0"
        names = strategy.extended.worker_devices
        _mirrored = strategy
        _mirrored_devices = tuple("/" + name.rpartition("device:")[2] for name in names)
    return strategy


def mirrored_devices() -> tuple[str, ...] | None:
    """Returns the devices of the process' `MirroredStrategy`; None before the first."""
    return _mirrored_devices
