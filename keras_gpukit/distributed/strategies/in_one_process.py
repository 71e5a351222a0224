"""The choice of a strategy, as pure data, and strategies of one process.

Two `MirroredStrategy` objects in one process collide: their collectives share key numbers, so
models of different shapes meet in one all-reduce (`Shape mismatch in the collective instance`). So
later calls return the same object.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from keras_gpukit.distributed import repairs
from keras_gpukit.distributed.repairs.several_workers import is_multi_worker
from keras_gpukit.records.installation import Machine


@dataclass(frozen=True)
class Resources:
    """Facts that a strategy is chosen from."""

    machine: Machine
    gpus: int
    worker_timeout_s: float = 600.0


@dataclass(frozen=True)
class Choice:
    """The strategy that a kind would make, with the reason."""

    value: Any
    """Argument for `make`, such as names of devices, which the user sees; None for no strategy."""
    reason: str
    replicas: int = 1
    meaning: str = ""
    """Consequences for the loss and the effective batch; empty without any."""
    warnings: tuple[str, ...] = ()
    must_come_first: bool = False
    """Whether TensorFlow refuses the strategy once its devices are started."""


def synchronous(replicas: int) -> str:
    """Returns sentences on what training in step means for the loss and the batch."""
    return (
        "Synchronous: each step takes one batch of the dataset, the global batch, and each of the "
        f"{replicas} replicas computes 1/{replicas} of it. Gradients are averaged before the "
        "update, so the loss is that of one device with the same global batch. A batch that "
        f"{replicas} does not divide gives its examples unequal weights: use drop_remainder=True."
    )


_mirrored: Any = None


def choose_one_device(resources: Resources) -> Choice:
    """Chooses the first GPU, or the CPU without one; warns of GPUs that stay idle."""
    idle = (
        f'strategy="one_device" uses the first of {resources.gpus} logical GPUs; the others take '
        "memory and stay idle. Name one GPU in `devices` to leave the others free."
    )
    return Choice(
        ("/GPU:0" if resources.gpus else "/CPU:0",),
        "everything on one device",
        meaning="Loss and batch are those of training without a strategy.",
        warnings=(idle,) if resources.gpus > 1 else (),
    )


def make_one_device(value: Any) -> Any:
    """Returns a `tf.distribute.OneDeviceStrategy`."""
    import tensorflow as tf

    return tf.distribute.OneDeviceStrategy(value[0])


def choose_mirrored(resources: Resources) -> Choice:
    """Chooses all logical GPUs, or without a GPU all logical CPUs, to train in step."""
    gpus = tuple(f"/GPU:{index}" for index in range(resources.gpus))
    cpus = tuple(f"/CPU:{index}" for index in range(resources.machine.state.logical_cpus))
    if not gpus and len(cpus) == 1:
        # A MirroredStrategy would name GPU:0 here, and silently train on the CPU.
        warning = (
            'strategy="mirrored" has no GPU to mirror over: training uses the CPU, unmirrored.'
        )
        return Choice(None, "there is no GPU", warnings=(warning,))
    devices = gpus or cpus
    existing = resources.machine.mirrored_devices
    if existing not in (None, devices):
        raise ValueError(
            f"A process can have one MirroredStrategy, and this one's is over {existing}, not "
            f"{devices}: restart Python to change it. Received: strategy='mirrored'"
        )
    kind = "GPUs" if gpus else "CPUs, as there is no GPU"
    return Choice(
        devices,
        f"training in step on {len(devices)} logical {kind}",
        replicas=len(devices),
        meaning=synchronous(len(devices)) if len(devices) > 1 else "",
    )


def make_mirrored(devices: tuple[str, ...]) -> Any:
    """Returns this process's `tf.distribute.MirroredStrategy`, created at the first call."""
    global _mirrored
    import tensorflow as tf

    repairs.repair(*repairs.MIRRORED)
    if _mirrored is None:
        # On CPUs TensorFlow's default collectives fail once steps_per_execution exceeds 1.
        on_cpus = all("CPU" in device for device in devices)
        reduction = tf.distribute.ReductionToOneDevice() if on_cpus else None
        _mirrored = tf.distribute.MirroredStrategy(devices, cross_device_ops=reduction)
    return _mirrored


def adopt(strategy: Any) -> Any:
    """Registers a strategy that was created elsewhere, and returns it.

    A `MirroredStrategy` becomes the one that `make_mirrored` returns from then on.
    """
    global _mirrored
    import tensorflow as tf

    if not isinstance(strategy, tf.distribute.Strategy):
        raise TypeError(
            f"`strategy` must be a tf.distribute.Strategy. Received: strategy={strategy!r}"
        )
    if isinstance(strategy, tf.distribute.MirroredStrategy):
        if _mirrored not in (None, strategy):
            raise ValueError(
                "A process can have one MirroredStrategy, and this one has another, over "
                f"{mirrored_devices()}. Received: strategy={strategy!r}"
            )
        _mirrored = strategy
    if is_multi_worker(strategy):
        repairs.repair_multi_worker()
    return strategy


def mirrored_devices() -> tuple[str, ...] | None:
    """Returns the devices of this process's `MirroredStrategy`; None if it has none yet."""
    if _mirrored is None:
        return None
    # TensorFlow calls "/GPU:0" "/job:localhost/replica:0/task:0/device:GPU:0".
    names = _mirrored.extended.worker_devices
    return tuple("/" + name.rpartition("device:")[2] for name in names)
