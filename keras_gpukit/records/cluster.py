"""Which processes train together, how they compare, and how a model is split over devices.

Every worker takes as long for a step as the slowest one, since all of them meet at the step's
collectives. They differ in how long they wait there: the worker that arrives last waits least.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from keras_gpukit.records import Displayed
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
    """Returns a process's place among those that train together; None without a cluster.

    Counts as `multi_worker_util.id_in_cluster` and `worker_count` of TensorFlow 2.21 do.
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


MemberKind = Literal["worker", "replica"]


@dataclass(frozen=True)
class ComparedStep:
    """Time of one worker in one step.

    With several steps per execution, each figure is the mean of an execution's steps.

    Attributes:
        step: Global step. For GPUs of one process: position of the step in the profile, from 0.
        input_s: Seconds that the step waited for its batch; None if the wait is known for the whole
            run only.
        collective_s: Seconds at collectives while nothing was computed: waiting for other workers,
            and exchanging data with them.
    """

    step: int
    duration_s: float
    input_s: float | None
    collective_s: float

    @property
    def busy_s(self) -> float:
        """Seconds without the collectives: how long the worker took to arrive at them."""
        return max(self.duration_s - self.collective_s, 0.0)


@dataclass(frozen=True)
class RoundTrip:
    """Time that a short message to another worker and its answer took.

    Attributes:
        lowest_s: Shortest round trip, in seconds: the time that the network takes while the
            machines are idle.
    """

    peer: int
    lowest_s: float
    median_s: float
    readings: int


@dataclass(frozen=True)
class WorkerFigures:
    """One worker of a cluster, or one replica of a process. Unknown figures are None.

    Attributes:
        index: Index among the workers that train, from 0, the chief first; for replicas, index of
            the GPU.
        examples: Number of examples that it trained on.
        gpu_percent: Mean utilization of its GPUs, 0 to 100.
        cpu_percent: Mean share of all cores of its machine that its process used, 0 to 100.
        compared: Some of its steps in order, with their time at collectives.
        round_trips: Round trips to other workers, or only to some of them if there are many.
    """

    index: int
    steps: int | None = None
    step_time_s: float | None = None
    input_wait_s: float | None = None
    examples: int | None = None
    gpu_percent: float | None = None
    cpu_percent: float | None = None
    compared: tuple[ComparedStep, ...] = ()
    compared_unknown_because: str | None = None
    round_trips: tuple[RoundTrip, ...] = ()


@dataclass(frozen=True)
class WorkerComparison:
    """Comparison of the members of a synchronous run.

    Attributes:
        expected: Number of members that train together.
        kind: "worker" for processes of a cluster; "replica" for GPUs of one process.
        unknown_because: Why some or all members are missing, in words; None if none is.
    """

    members: tuple[WorkerFigures, ...] = ()
    expected: int | None = None
    kind: MemberKind = "worker"
    unknown_because: str | None = None

    @property
    def is_complete(self) -> bool:
        """Whether there are several members, and all of them are known."""
        return len(self.members) > 1 and len(self.members) == (self.expected or 0)


def trains_with_others(worker: Worker | None) -> bool:
    """Whether a process is one of several that train together in step."""
    return worker is not None and worker.index is not None and (worker.count or 1) > 1


SplitBy = Literal["memory", "boundaries", "layers"]


@dataclass(frozen=True)
class ModelStage:
    """The layers on one device.

    Attributes:
        layers: Names of the layers in the order of the forward pass. Layers of nested models are
            named "model/layer".
        activation_bytes: Size of the activations that the forward pass keeps for the backward pass,
            at the plan's batch size. The plan's notes say what is not counted.
    """

    device: str
    layers: tuple[str, ...]
    weight_bytes: int
    slot_bytes: int
    activation_bytes: int

    @property
    def memory_bytes(self) -> int:
        """Sum of weights, slots and activations."""
        return self.weight_bytes + self.slot_bytes + self.activation_bytes


@dataclass(frozen=True)
class Crossing:
    """A tensor of the forward pass that one device sends to another in each step.

    The backward pass sends its gradient the other way.

    Attributes:
        size_bytes: Size at the plan's batch size; None if the shape is unknown before training.
    """

    layer: str
    from_device: str
    to_device: str
    size_bytes: int | None


@dataclass(frozen=True)
class SplitPlan(Displayed):
    """How `split_model` split a model."""

    stages: tuple[ModelStage, ...]
    crossings: tuple[Crossing, ...]
    chosen_by: SplitBy
    batch_size: int
    optimizer: str
    notes: tuple[str, ...] = ()

    @property
    def device_of(self) -> dict[str, str]:
        """Device of each layer, by layer name."""
        return {layer: stage.device for stage in self.stages for layer in stage.layers}
