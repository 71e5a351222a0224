"""The choice of a strategy: pure data, from which the strategy is made."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from keras_gpukit.records.installation import Machine


@dataclass(frozen=True)
class Resources:
    """Facts that a strategy is chosen from."""

    machine: Machine
    gpus: int
    worker_timeout_s: float = 600.0


@dataclass(frozen=True)
class Choice:
    """The strategy that a kind would make, with the reason.

    Attributes:
        value: Argument for `make`, such as the names of the devices; also shown to the user. None
            for no strategy.
        reason: Why this was chosen, and over which devices or processes it trains.
        replicas: Number of copies of the model that train in step.
        meaning: Consequences for the loss and the effective batch; empty without any.
        warnings: Sentences on effects that the user probably does not intend.
        must_come_first: Whether TensorFlow refuses the strategy once its devices are started.
    """

    value: Any
    reason: str
    replicas: int = 1
    meaning: str = ""
    warnings: tuple[str, ...] = ()
    must_come_first: bool = False


def synchronous(replicas: int, kind: str) -> str:
    """Returns sentences on what training in step means for the loss and the batch."""
    return (
        f"Synchronous: each step takes one batch of the dataset, the global batch, and each of the "
        f"{replicas} {kind} computes 1/{replicas} of it. Gradients are averaged before the update, "
        f"so the loss is that of one device with the same global batch. A batch that {replicas} "
        "does not divide gives its examples unequal weights: use drop_remainder=True."
    )
