"""Which processes train together, and which of them this one is."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from keras_gpukit.records.environment import Worker

ShardPolicy = Literal["AUTO", "FILE", "DATA", "OFF", "HINT"]


@dataclass(frozen=True)
class Cluster:
    """The processes of one training job, as one of them reads them from its environment variables.

    Attributes:
        kind: Convention of the variables: "TF_CONFIG", "Slurm", "Kubernetes" or "MPI".
        addresses: "host:port" of each task in index order, by task type ("chief", "worker", "ps",
            "evaluator").
        variables: Environment variables that the cluster was read from.
        source: Launcher of the process, more precise than `kind`, such as "Slurm job 17, step 0" or
            "Kubeflow TrainJob"; "" if `kind` says it all.
    """

    kind: str
    addresses: Mapping[str, tuple[str, ...]]
    task_type: str
    task_index: int
    variables: Mapping[str, str] = field(default_factory=dict)
    source: str = ""

    def __str__(self) -> str:
        tasks = ", ".join(f"{len(hosts)} {role}" for role, hosts in self.addresses.items())
        where = f" at {self.address}" if self.address else ""
        return f"{self.source or self.kind}: {self.task_type} {self.task_index}{where}, of {tasks}"

    @property
    def address(self) -> str | None:
        """Host and port of this process; None for an evaluator that the cluster does not list."""
        own = self.addresses.get(self.task_type, ())
        return own[self.task_index] if self.task_index < len(own) else None

    @property
    def worker(self) -> Worker | None:
        """Place of this process among those that train together."""
        return worker_of(self.addresses, self.task_type, self.task_index)

    def tf_config(self) -> str:
        """Returns the JSON that TensorFlow reads from the environment variable `TF_CONFIG`."""
        cluster = {role: list(hosts) for role, hosts in self.addresses.items()}
        task = {"type": self.task_type, "index": self.task_index}
        return json.dumps({"cluster": cluster, "task": task})


def worker_of(
    addresses: Mapping[str, Sequence[str]], task_type: str | None, task_index: Any
) -> Worker | None:
    """Returns a process's place among those that train together.

    Counts as `multi_worker_util.id_in_cluster` and `worker_count` of TensorFlow 2.21 do.

    Returns:
        The process's place; None without a cluster.

    Raises:
        TypeError, ValueError: If `task_index` is not a number.
    """
    if not addresses:
        return None
    chiefs, workers = len(addresses.get("chief", ())), len(addresses.get("worker", ()))
    if "ps" in addresses:  # the chief coordinates: it alone runs `fit`, and trains nothing itself
        return Worker(task_type, None, workers or None)
    index = None
    if task_type in ("chief", "worker") and task_index is not None:
        index = int(task_index) + (chiefs if task_type == "worker" else 0)
    return Worker(task_type, index, chiefs + workers or None)


@dataclass(frozen=True)
class ReplicaInput:
    """How replicas get their data. Fields that cannot be determined are None.

    Attributes:
        replicas: Number of replicas that train in step, over all workers.
        policy: Auto-shard policy: how TensorFlow divides the dataset among the workers.
        files: Number of files that the dataset reads; None if it reads none or their number is
            unknown.
        drops_remainder: Whether an incomplete last batch is dropped.
        batch_norms: Number of BatchNormalization layers that compute their statistics on each
            replica alone.
    """

    replicas: int
    workers: int = 1
    policy: ShardPolicy = "AUTO"
    files: int | None = None
    batch: int | None = None
    last_batch: int | None = None
    drops_remainder: bool = False
    batch_norms: int | None = None
