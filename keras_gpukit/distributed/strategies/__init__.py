"""The strategies of `configure_gpus`: a choice and a maker for each kind.

Here are those over a cluster, whose processes train in step, or each at its own pace. A process has
only one server in its cluster, so later calls return the same strategy.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from keras_gpukit.distributed import repairs
from keras_gpukit.distributed.coordinating import train_by_coordinator
from keras_gpukit.distributed.rendezvous import serve, wait_for_tasks
from keras_gpukit.distributed.repairs.several_workers import cluster_of as cluster_of
from keras_gpukit.distributed.repairs.several_workers import is_chief as is_chief
from keras_gpukit.distributed.repairs.several_workers import is_multi_worker as is_multi_worker
from keras_gpukit.distributed.strategies import in_one_process
from keras_gpukit.distributed.strategies.in_one_process import Choice, synchronous
from keras_gpukit.distributed.strategies.in_one_process import Resources as Resources
from keras_gpukit.distributed.strategies.in_one_process import adopt as adopt
from keras_gpukit.distributed.strategies.in_one_process import mirrored_devices as mirrored_devices
from keras_gpukit.records.cluster import Cluster


@dataclass(frozen=True)
class ClusterTask:
    """This process's part in its cluster."""

    cluster: Cluster
    gpus: int
    worker_timeout_s: float

    def __str__(self) -> str:
        return str(self.cluster)

    def others(self, *roles: str) -> dict[str, str]:
        """Returns the addresses of the other tasks in these roles, by task name ("worker 1")."""
        own = (self.cluster.task_type, self.cluster.task_index)
        return {
            f"{role} {index}": address
            for role in roles
            for index, address in enumerate(self.cluster.addresses.get(role, ()))
            if (role, index) != own
        }

    def resolver(self) -> Any:
        """Returns the cluster resolver that TensorFlow's strategies accept."""
        import tensorflow as tf

        return tf.distribute.cluster_resolver.SimpleClusterResolver(
            tf.train.ClusterSpec({r: list(a) for r, a in self.cluster.addresses.items()}),
            task_type=self.cluster.task_type,
            task_id=self.cluster.task_index,
            num_accelerators={"GPU": self.gpus},
            rpc_layer="grpc",
        )


def _task(name: str, resources: Resources) -> ClusterTask:
    if resources.machine.cluster is None:
        raise ValueError(
            f"{name} needs a cluster, and the environment describes none, or one of a single "
            "process. `keras-gpukit launch --workers 2 script.py` starts several processes of a "
            f"script on this machine and sets the environment of each. Received: strategy='{name}'"
        )
    return ClusterTask(resources.machine.cluster, resources.gpus, resources.worker_timeout_s)


def _choose_multi_worker(resources: Resources) -> Choice:
    task = _task("multi_worker", resources)
    cluster = task.cluster
    if "ps" in cluster.addresses:
        raise ValueError(
            f"The cluster ({cluster}) has parameter servers, with which processes do not train "
            "in step: use strategy='parameter_server', or leave them out. Received: "
            "strategy='multi_worker'"
        )
    if cluster.task_type not in ("chief", "worker"):
        raise ValueError(
            f"This process ({cluster}) does not train: only the chief and workers do. "
            "Received: strategy='multi_worker'"
        )
    workers = sum(len(cluster.addresses.get(role, ())) for role in ("chief", "worker"))
    replicas = workers * max(1, resources.gpus)
    return Choice(
        task,
        f"training in step in {workers} processes, recognized from {cluster.kind}",
        replicas=replicas,
        meaning=synchronous(replicas)
        + " Only the chief writes checkpoints and logs of Keras' callbacks.",
        must_come_first=resources.machine.cluster_strategy is None,
    )


def _make_multi_worker(task: ClusterTask) -> Any:
    import tensorflow as tf

    wait_for_tasks(task.cluster.address, task.others("chief", "worker"), task.worker_timeout_s)
    strategy = tf.distribute.MultiWorkerMirroredStrategy(cluster_resolver=task.resolver())
    repairs.repair_multi_worker()
    return strategy


def _choose_parameter_server(resources: Resources) -> Choice:
    task = _task("parameter_server", resources)
    cluster = task.cluster
    chiefs, workers, servers = (
        len(cluster.addresses.get(role, ())) for role in ("chief", "worker", "ps")
    )
    if chiefs != 1 or not workers or not servers:
        raise ValueError(
            "strategy='parameter_server' needs one chief, and at least one worker and one "
            "parameter server. `keras-gpukit launch --workers 2 --ps 1 script.py` starts them. "
            f"Received: {cluster}"
        )
    return Choice(
        task,
        f"training asynchronously on {workers} workers, recognized from {cluster.kind}",
        meaning=(
            f"Asynchronous: each of the {workers} workers takes a whole batch of the dataset and "
            "updates the shared weights as soon as it has finished, from weights that others have "
            "changed since. The effective batch is that of the dataset, not "
            f"{workers} times as large, and up to {2 * workers} steps are under way together. The "
            "reported loss is an average over such steps: it differs a little from run to run and "
            "from training on one device."
        ),
        must_come_first=resources.machine.cluster_strategy is None,
    )


def _make_parameter_server(task: ClusterTask) -> Any:
    """Returns the strategy on the chief; any other task serves the chief, and exits with it."""
    import tensorflow as tf

    cluster, timeout_s = task.cluster, task.worker_timeout_s
    if cluster.task_type != "chief":
        wait_for_tasks(cluster.address, task.others("chief"), timeout_s)
        serve(cluster)
        raise SystemExit(0)
    wait_for_tasks(cluster.address, task.others("worker", "ps"), timeout_s)
    strategy = tf.distribute.ParameterServerStrategy(task.resolver())
    repairs.repair(*repairs.PARAMETER_SERVER)
    train_by_coordinator(strategy, cluster, timeout_s)
    return strategy


# Each makes a choice from the resources, and the strategy from the choice's value.
_KINDS: dict[str, tuple[Callable[[Resources], Choice], Callable[[Any], Any]]] = {
    "one_device": (in_one_process.choose_one_device, in_one_process.make_one_device),
    "mirrored": (in_one_process.choose_mirrored, in_one_process.make_mirrored),
    "multi_worker": (_choose_multi_worker, _make_multi_worker),
    "parameter_server": (_choose_parameter_server, _make_parameter_server),
}
_REFUSED = {
    "central_storage": (
        "Under CentralStorageStrategy, Keras 3 trains the right weights but reports wrong losses "
        "and metrics, so that callbacks which watch them act wrongly. strategy='mirrored' trains "
        "on the same GPUs. Received: strategy='central_storage'"
    )
}
ACCEPTED = ("auto", "none", *_KINDS)
"""Names that `configure_gpus(strategy=…)` accepts."""
NAMES = (*ACCEPTED, *_REFUSED)
"""Names that `configure_gpus(strategy=…)` accepts, or refuses with a specific reason."""
ACTIONS = {f"{name}_strategy": name for name in _KINDS}
"""Name of the kind of strategy, by the kind of a plan's action that makes the strategy."""


def choose(name: str, resources: Resources) -> tuple[str, Choice]:
    """Returns the kind that a strategy name stands for, and its choice; makes nothing."""
    if name == "auto":
        return _choose_auto(resources)
    if name == "none":
        return name, Choice(None, "as asked")
    if name in _REFUSED:
        raise ValueError(_REFUSED[name])
    return name, _KINDS[name][0](resources)


_made: tuple[str, Any] | None = None
"""This process's strategy over its cluster, and its kind."""


def make(name: str, value: Any) -> Any:
    """Returns the `tf.distribute` strategy of a kind, given the value of its choice."""
    global _made
    if not isinstance(value, ClusterTask):
        return _KINDS[name][1](value)
    if _made is None:
        _made = (name, _KINDS[name][1](value))
    elif _made[0] != name:
        raise ValueError(
            f"This process trains with strategy={_made[0]!r}: restart Python to change it. "
            f"Received: strategy={name!r}"
        )
    return _made[1]


def cluster_strategy() -> str | None:
    """Returns the name of this process's strategy over its cluster; None if it has none yet."""
    return None if _made is None else _made[0]


def _choose_auto(resources: Resources) -> tuple[str, Choice]:
    cluster = resources.machine.cluster
    if cluster is not None and "ps" in cluster.addresses:
        name, why = "parameter_server", "the cluster has parameter servers"
    elif cluster is not None:
        name, why = "multi_worker", "the environment describes a cluster"
    elif resources.gpus > 1:
        name, why = "mirrored", "there are several GPUs"
    else:
        count = "one GPU" if resources.gpus else "no GPU"
        return "none", Choice(None, f"there is {count}, and no cluster in the environment")
    choice = _KINDS[name][0](resources)
    return name, replace(choice, reason=f"{choice.reason}; chosen as {why}")
