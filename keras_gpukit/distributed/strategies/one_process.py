"""Strategies of one process: it trains on one device, or on several in step."""

from __future__ import annotations

from typing import Any

from keras_gpukit.distributed import repairs
from keras_gpukit.distributed.strategies import of_this_process
from keras_gpukit.distributed.strategies.kind import Choice, Resources, StrategyKind, synchronous


class OneDevice(StrategyKind):
    """Trains on the first GPU, or on the CPU if there is no GPU."""

    name = "one_device"

    def choose(self, there: Resources) -> Choice:
        """Chooses the device, and warns of GPUs that stay idle."""
        device = "/GPU:0" if there.gpus else "/CPU:0"
        idle = (
            f'strategy="one_device" uses the first of {there.gpus} logical GPUs; the others take '
            "memory and stay idle. Name one GPU in `devices` to leave the others free."
        )
        return Choice(
            (device,),
            "everything on one device",
            meaning="Loss and batch are those of training without a strategy.",
            warnings=(idle,) if there.gpus > 1 else (),
        )

    def make(self, value: Any) -> Any:
        """Returns a `tf.distribute.OneDeviceStrategy`."""
        import tensorflow as tf

        return tf.distribute.OneDeviceStrategy(value[0])


class Mirrored(StrategyKind):
    """Trains on all logical GPUs in step, or on all logical CPUs if there is no GPU."""

    name = "mirrored"

    def choose(self, there: Resources) -> Choice:
        """Chooses the devices, each of which gets a copy of the model."""
        gpus = tuple(f"/GPU:{index}" for index in range(there.gpus))
        cpus = tuple(f"/CPU:{index}" for index in range(there.machine.state.logical_cpus))
        if not gpus and len(cpus) == 1:
            # A MirroredStrategy would name GPU:0 here, and silently train on the CPU.
            warning = (
                'strategy="mirrored" has no GPU to mirror over: training uses the CPU, unmirrored.'
            )
            return Choice(None, "there is no GPU", warnings=(warning,))
        devices = gpus or cpus
        existing = there.machine.mirrored_devices
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
            meaning=synchronous(len(devices), "replicas") if len(devices) > 1 else "",
        )

    def make(self, value: Any) -> Any:
        """Returns this process's `tf.distribute.MirroredStrategy`."""
        repairs.repair_mirrored()
        return of_this_process.mirrored(value)
