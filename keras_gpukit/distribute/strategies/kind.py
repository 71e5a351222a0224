"""What a kind of strategy is: a pure choice from what there is, and the strategy made from it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

from keras_gpukit.records.installation import Machine


@dataclass(frozen=True)
class Resources:
    """What a strategy is chosen from.

    Attributes:
        machine: What there is, this process's cluster and strategies included.
        gpus: Logical GPUs that will be used.
        worker_timeout_s: How long to wait for the other processes of a cluster.
    """

    machine: Machine
    gpus: int
    worker_timeout_s: float = 600.0


@dataclass(frozen=True)
class Choice:
    """What a kind of strategy would do.

    Attributes:
        value: What `make` takes, as it is shown; None for no strategy.
        reason: Why, and over what.
        replicas: Copies of the model that train in step.
        meaning: What it means for the loss and the effective batch.
        warnings: What is likely not meant.
        must_come_first: Whether TensorFlow refuses it once its devices are started.
    """

    value: Any
    reason: str
    replicas: int = 1
    meaning: str = ""
    warnings: tuple[str, ...] = ()
    must_come_first: bool = False


class StrategyKind(ABC):
    """One kind of strategy.

    Attributes:
        name: As in `configure_gpus(strategy=…)`.
    """

    name: ClassVar[str]

    @abstractmethod
    def choose(self, there: Resources) -> Choice:
        """Returns what it would do with what there is; pure.

        Raises:
            ValueError: If it cannot be had here.
        """

    @abstractmethod
    def make(self, value: Any) -> Any:
        """Returns the `tf.distribute` strategy."""


def synchronous(replicas: int, kind: str) -> str:
    """Says what training in step means for the loss and the batch."""
    return (
        f"Synchronous: each step takes one batch of the dataset, the global batch, and each of the "
        f"{replicas} {kind} computes 1/{replicas} of it. Gradients are averaged before the update, "
        f"so the loss is that of one device with the same global batch. A batch that {replicas} "
        "does not divide gives its examples unequal weights: use drop_remainder=True."
    )
