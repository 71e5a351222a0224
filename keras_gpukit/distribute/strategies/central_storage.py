"""Variables on the CPU, computation on several GPUs: refused."""

from __future__ import annotations

from typing import Any

from keras_gpukit.distribute.strategies.kind import Choice, Resources, StrategyKind


class CentralStorage(StrategyKind):
    """Refused, since Keras 3 reports wrong losses under it."""

    name = "central_storage"

    def choose(self, there: Resources) -> Choice:
        """Refuses.

        Raises:
            ValueError: Always.
        """
        raise ValueError(
            "Under CentralStorageStrategy, Keras 3 trains the right weights but reports wrong "
            "losses and metrics, so that callbacks which watch them act wrongly. "
            "strategy='mirrored' trains on the same GPUs. Received: strategy='central_storage'"
        )

    def make(self, value: Any) -> Any:
        """Is never reached."""
        raise NotImplementedError(self.name)
