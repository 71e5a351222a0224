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
from keras_gpukit.distributed.repairs.several_workers import is_chief as is_chief
from keras_gpukit.distributed.repairs.several_workers import is_multi_worker as is_multi_worker
from keras_gpukit.distributed.strategies import in_one_process
from keras_gpukit.distributed.strategies.in_one_process import Choice, synchronous
from keras_gpukit.distributed.strategies.in_one_process import Resources as Resources
from keras_gpukit.distributed.strategies.in_one_process import adopt as adopt
from keras_gpukit.distributed.strategies.in_one_process import mirrored_devices as mirrored_devices
from keras_gpukit.records.cluster import Cluster

_made: tuple[str, Any] | None = None
NO_CLUSTER = (
    "{name} needs a cluster, and the environment describes none, or one of a single process. "
    "`keras-gpukit launch --workers 2 script.py` starts several processes of a script on this "
    "machine and sets the environment of each. Received: strategy='{name}'"
)


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


def choose_multi_worker(there: Resources) -> Choice:
    """Chooses training in step with the cluster, and names this process's place in it."""
    cluster = there.machine.cluster
    if cluster is None:
        raise ValueError(NO_CLUSTER.format(name="multi_worker"))
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
    replicas = workers * max(1, there.gpus)
    return Choice(
        ClusterTask(cluster, there.gpus, there.worker_timeout_s),
        f"training in step in {workers} processes, recognized from {cluster.kind}",
        replicas=replicas,
        meaning=synchronous(replicas, "replicas")
        + " Only the chief writes checkpoints and logs of Keras' callbacks.",
        must_come_first=there.machine.cluster_strategy is None,
    )


def make_multi_worker(value: ClusterTask) -> Any:
    """Returns this process's `tf.distribute.MultiWorkerMirroredStrategy`."""

    def new() -> Any:
        import tensorflow as tf

        others = value.others("chief", "worker")
        wait_for_tasks(value.cluster.address, others, value.worker_timeout_s)
        strategy = tf.distribute.MultiWorkerMirroredStrategy(cluster_resolver=value.resolver())
        repairs.repair_multi_worker()
        return strategy

    return _over_cluster("multi_worker", new)


_MEANING = (
    "Asynchronous: each of the {workers} workers takes a whole batch of the dataset and updates "
    "the shared weights as soon as it has finished, from weights that others have changed since. "
    "The effective batch is that of the dataset, not {workers} times as large, and up to "
    "{at_once} steps are under way together. The reported loss is an average over such steps: it "
    "differs a little from run to run and from training on one device."
)


def choose_parameter_server(there: Resources) -> Choice:
    """Chooses asynchronous training with the cluster, and names this process's place in it."""
    cluster = there.machine.cluster
    if cluster is None:
        raise ValueError(NO_CLUSTER.format(name="parameter_server"))
    counts = {role: len(cluster.addresses.get(role, ())) for role in ("chief", "worker", "ps")}
    if counts["chief"] != 1 or not counts["worker"] or not counts["ps"]:
        raise ValueError(
            "strategy='parameter_server' needs one chief, and at least one worker and one "
            "parameter server. `keras-gpukit launch --workers 2 --ps 1 script.py` starts them. "
            f"Received: {cluster}"
        )
    meaning = _MEANING.format(workers=counts["worker"], at_once=2 * counts["worker"])
    return Choice(
        ClusterTask(cluster, there.gpus, there.worker_timeout_s),
        f"training asynchronously on {counts['worker']} workers, recognized from {cluster.kind}",
        meaning=meaning,
        must_come_first=there.machine.cluster_strategy is None,
    )


def make_parameter_server(value: ClusterTask) -> Any:
    """Returns this process's `tf.distribute.ParameterServerStrategy`, on the chief.

    A worker or a parameter server serves the chief until the chief ends, and then exits.
    """

    def new() -> Any:
        import tensorflow as tf

        cluster, timeout_s = value.cluster, value.worker_timeout_s
        if cluster.task_type != "chief":
            wait_for_tasks(cluster.address, value.others("chief"), timeout_s)
            serve(cluster)
            raise SystemExit(0)
        wait_for_tasks(cluster.address, value.others("worker", "ps"), timeout_s)
        strategy = tf.distribute.ParameterServerStrategy(value.resolver())
        repairs.repair_parameter_server()
        train_by_coordinator(strategy, cluster, timeout_s)
        return strategy

    return _over_cluster("parameter_server", new)


def _over_cluster(name: str, new: Callable[[], Any]) -> Any:
    """Returns this process's strategy over its cluster, created by `new` at the first call."""
    global _made
    if _made is None:
        _made = (name, new())
    elif _made[0] != name:
        raise ValueError(
            f"This process trains with strategy={_made[0]!r}: restart Python to change it. "
            f"Received: strategy={name!r}"
        )
    return _made[1]


def cluster_strategy() -> str | None:
    """Returns the name of this process's strategy over its cluster; None if it has none yet."""
    return None if _made is None else _made[0]


# Each makes a choice from the resources, and the strategy from the choice's value.
_KINDS: dict[str, tuple[Callable[[Resources], Choice], Callable[[Any], Any]]] = {
    "one_device": (in_one_process.choose_one_device, in_one_process.make_one_device),
    "mirrored": (in_one_process.choose_mirrored, in_one_process.make_mirrored),
    "multi_worker": (choose_multi_worker, make_multi_worker),
    "parameter_server": (choose_parameter_server, make_parameter_server),
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


def choose(name: str, there: Resources) -> tuple[str, Choice]:
    """Returns the kind that a strategy name stands for, and its choice; makes nothing."""
    if name == "auto":
        return _choose_auto(there)
    if name == "none":
        return name, Choice(None, "as asked")
    if name in _REFUSED:
        raise ValueError(_REFUSED[name])
    return name, _KINDS[name][0](there)


def make(name: str, value: Any) -> Any:
    """Returns the `tf.distribute` strategy of a kind, given the value of its choice."""
    return _KINDS[name][1](value)


def _choose_auto(there: Resources) -> tuple[str, Choice]:
    cluster = there.machine.cluster
    if cluster is not None and "ps" in cluster.addresses:
        name, why = "parameter_server", "the cluster has parameter servers"
    elif cluster is not None:
        name, why = "multi_worker", "the environment describes a cluster"
    elif there.gpus > 1:
        name, why = "mirrored", "there are several GPUs"
    else:
        count = "one GPU" if there.gpus else "no GPU"
        return "none", Choice(None, f"there is {count}, and no cluster in the environment")
    choice = _KINDS[name][0](there)
    return name, replace(choice, reason=f"{choice.reason}; chosen as {why}")
