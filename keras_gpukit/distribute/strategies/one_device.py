"""Everything on one device."""

from __future__ import annotations

from typing import Any

from keras_gpukit.distribute.strategies.kind import Choice, Resources, StrategyKind


class OneDevice(StrategyKind):
    """Trains on the first GPU, else on the CPU."""

    name = "one_device"

    def choose(self, there: Resources) -> Choice:
        """Names the device, and the GPUs that it leaves idle."""
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
