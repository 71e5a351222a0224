"""The `tf.distribute` strategies of this process.

Two `MirroredStrategy` objects in one process collide: their collectives share key numbers, so
models of different shapes meet in one all-reduce (`Shape mismatch in the collective instance`).
Also, a process has only one server in its cluster. So later calls return the same objects.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from keras_gpukit.distributed import repairs
from keras_gpukit.distributed.repairs.keras_private import is_multi_worker

_mirrored: Any = None
_mirrored_devices: tuple[str, ...] | None = None
_over_cluster: tuple[str, Any] | None = None


def mirrored(devices: tuple[str, ...]) -> Any:
    """Returns this process's `tf.distribute.MirroredStrategy`, created at the first call."""
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


def over_cluster(name: str, new: Callable[[], Any]) -> Any:
    """Returns this process's strategy over its cluster, created by `new` at the first call."""
    global _over_cluster
    if _over_cluster is None:
        _over_cluster = (name, new())
    elif _over_cluster[0] != name:
        raise ValueError(
            f"This process trains with strategy={_over_cluster[0]!r}: restart Python to change it. "
            f"Received: strategy={name!r}"
        )
    return _over_cluster[1]


def cluster_strategy() -> str | None:
    """Returns the name of this process's strategy over its cluster; None if it has none yet."""
    return None if _over_cluster is None else _over_cluster[0]


def adopt(strategy: Any) -> Any:
    """Registers a strategy that was created elsewhere, and returns it.

    A `MirroredStrategy` becomes the one that `mirrored` returns from then on.

    Raises:
        TypeError: If `strategy` is not a `tf.distribute.Strategy`.
        ValueError: If it is a `MirroredStrategy` and this process already has another one.
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
        # `mirrored` calls "/job:localhost/replica:0/task:0/device:GPU:0" just "/GPU:0".
        names = strategy.extended.worker_devices
        _mirrored = strategy
        _mirrored_devices = tuple("/" + name.rpartition("device:")[2] for name in names)
    if is_multi_worker(strategy):
        repairs.repair_multi_worker()
    return strategy


def mirrored_devices() -> tuple[str, ...] | None:
    """Returns the devices of this process's `MirroredStrategy`; None if it has none yet."""
    return _mirrored_devices
