"""What several replicas are given to train on, as far as a dataset and a model show it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

ShardPolicy = Literal["AUTO", "FILE", "DATA", "OFF", "HINT"]


@dataclass(frozen=True)
class ReplicaInput:
    """The data side of replicas. What cannot be seen is None.

    Attributes:
        replicas: That train in step, of all workers.
        workers: Processes that they are in.
        policy: How TensorFlow shares the dataset out among the workers.
        files: Files that the dataset reads; None where it reads none, or their number is unknown.
        batch: The global batch.
        last_batch: Examples in the last batch of an epoch; None where unknown, as in endless data.
        drops_remainder: Whether a last batch that is not full is left out.
        batch_norms: Layers that compute their statistics on each replica alone.
    """

    replicas: int
    workers: int = 1
    policy: ShardPolicy = "AUTO"
    files: int | None = None
    batch: int | None = None
    last_batch: int | None = None
    drops_remainder: bool = False
    batch_norms: int | None = None
