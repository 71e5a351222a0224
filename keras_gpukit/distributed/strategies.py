"""The strategies of `configure_gpus`: for each kind a choice, as pure data, and a maker.

Two `MirroredStrategy` objects in one process collide: their collectives share key numbers, so
models of different shapes meet in one all-reduce (`Shape mismatch in the collective instance`). And
a process has only one server in its cluster. So later calls return the same object.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from keras_gpukit.distributed import repairs
from keras_gpukit.distributed.coordinating import AT_ONCE_PER_WORKER, train_by_coordinator
from keras_gpukit.distributed.rendezvous import ClusterTask as ClusterTask
from keras_gpukit.distributed.repairs.several_workers import cluster_of as cluster_of
from keras_gpukit.distributed.repairs.several_workers import is_chief as is_chief
from keras_gpukit.distributed.repairs.several_workers import is_multi_worker as is_multi_worker
from keras_gpukit.records.installation import Machine


@dataclass(frozen=True)
class Resources:
    """Facts that a strategy is chosen from."""

    machine: Machine
    gpus: int
    worker_timeout_s: float


@dataclass(frozen=True)
class Choice:
    """The strategy that a kind would make, with the reason."""

    value: Any
    """Argument for `make`, such as names of devices, which the user sees; None for no strategy."""
    reason: str
    replicas: int = 1
    meaning: str = ""
    """Consequences for the loss and the effective batch; empty without any."""
    warnings: tuple[str, ...] = ()


def _synchronous(replicas: int) -> str:
    """Returns sentences on what training in step means for the loss and the batch."""
    return (
        "Synchronous: each step takes one batch of the dataset, the global batch, and each of the "
        f"{replicas} replicas computes 1/{replicas} of it. Gradients are averaged before the "
        "update, so the loss is that of one device with the same global batch. A batch that "
        f"{replicas} does not divide gives its examples unequal weights: use drop_remainder=True."
    )


_mirrored: Any = None


def _choose_one_device(resources: Resources) -> Choice:
    idle = (
        f'strategy="one_device" uses the first of {resources.gpus} logical GPUs; the others take '
        "memory and stay idle. Name one GPU in `devices` to leave the others free."
    )
    return Choice(
        ("/GPU:0" if resources.gpus else "/CPU:0",),
        "everything on one device",
        meaning="Loss and batch are those of training without a strategy.",
        warnings=(idle,) if resources.gpus > 1 else (),
    )


def _make_one_device(value: Any) -> Any:
    import tensorflow as tf

    return tf.distribute.OneDeviceStrategy(value[0])


def _choose_mirrored(resources: Resources) -> Choice:
    gpus = tuple(f"/GPU:{index}" for index in range(resources.gpus))
    cpus = tuple(f"/CPU:{index}" for index in range(resources.machine.state.logical_cpus))
    if not gpus and len(cpus) == 1:
        # A MirroredStrategy would name GPU:0 here, and silently train on the CPU.
        warning = (
            'strategy="mirrored" has no GPU to mirror over: training uses the CPU, unmirrored.'
        )
        return Choice(None, "there is no GPU", warnings=(warning,))
    devices = gpus or cpus
    existing = resources.machine.mirrored_devices
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
        meaning=_synchronous(len(devices)) if len(devices) > 1 else "",
    )


def _make_mirrored(devices: tuple[str, ...]) -> Any:
    global _mirrored
    import tensorflow as tf

    repairs.repair(*repairs.MIRRORED)
    if _mirrored is None:
        # On CPUs TensorFlow's default collectives fail once steps_per_execution exceeds 1.
        on_cpus = all("CPU" in device for device in devices)
        reduction = tf.distribute.ReductionToOneDevice() if on_cpus else None
        _mirrored = tf.distribute.MirroredStrategy(devices, cross_device_ops=reduction)
    return _mirrored


def adopt(strategy: Any) -> Any:
    """Registers a strategy that was created elsewhere, and returns it.

    A `MirroredStrategy` becomes the one that later calls return.
    """
    global _mirrored
    import tensorflow as tf

    if not isinstance(strategy, tf.distribute.Strategy):
        raise TypeError(
            f"`strategy` must be a tf.distribute.Strategy. Received: strategy={strategy!r}"
        )
    if isinstance(strategy, tf.distribute.MirroredStrategy):
        if _mirrored not in (None, strategy):
            raise ValueError(
                "A process can have one MirroredStrategy, and this one has another, over "
                f"{mirrored_devices()}. Received: strategy={strategy!r}"
            )
        _mirrored = strategy
    if is_multi_worker(strategy):
        repairs.repair_multi_worker()
    return strategy


def mirrored_devices() -> tuple[str, ...] | None:
    """Returns the devices of this process's `MirroredStrategy`; None if it has none yet."""
    if _mirrored is None:
        return None
    # TensorFlow calls "/GPU:0" "/job:localhost/replica:0/task:0/device:GPU:0".
    names = _mirrored.extended.worker_devices
    return tuple("/" + name.rpartition("device:")[2] for name in names)


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
        meaning=_synchronous(replicas)
        + " Only the chief writes checkpoints and logs of Keras' callbacks.",
    )


def _make_multi_worker(task: ClusterTask) -> Any:
    import tensorflow as tf

    task.wait_for("chief", "worker")
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
            f"{workers} times as large, and up to {AT_ONCE_PER_WORKER * workers} steps are under "
            "way together. The reported loss is an average over such steps: it differs a little "
            "from run to run and from training on one device."
        ),
    )


def _make_parameter_server(task: ClusterTask) -> Any:
    """Returns the strategy on the chief; any other task serves the chief, and exits with it."""
    import tensorflow as tf

    if task.cluster.task_type != "chief":
        task.wait_for("chief")
        task.serve()
        raise SystemExit(0)
    task.wait_for("worker", "ps")
    strategy = tf.distribute.ParameterServerStrategy(task.resolver())
    repairs.repair(*repairs.PARAMETER_SERVER)
    train_by_coordinator(strategy, task.cluster, task.worker_timeout_s)
    return strategy


# Each makes a choice from the resources, and the strategy from the choice's value.
_KINDS: dict[str, tuple[Callable[[Resources], Choice], Callable[[Any], Any]]] = {
    "one_device": (_choose_one_device, _make_one_device),
    "mirrored": (_choose_mirrored, _make_mirrored),
    "multi_worker": (_choose_multi_worker, _make_multi_worker),
    "parameter_server": (_choose_parameter_server, _make_parameter_server),
}
ACCEPTED = ("auto", "none", *_KINDS)
"""Names that `configure_gpus(strategy=…)` accepts."""
NAMES = (*ACCEPTED, "central_storage")
"""Names that `configure_gpus(strategy=…)` accepts, or refuses with a specific reason."""
ACTIONS = {f"{name}_strategy": name for name in _KINDS}
"""Name of the kind of strategy, by the kind of a plan's action that makes the strategy."""


def choose(name: str, resources: Resources) -> tuple[str, Choice]:
    """Returns the kind that a strategy name stands for, and its choice; makes nothing."""
    if name == "auto":
        return _choose_auto(resources)
    if name == "none":
        return name, Choice(None, "as asked")
    if name == "central_storage":
        raise ValueError(
            "Under CentralStorageStrategy, Keras 3 trains the right weights but reports wrong "
            "losses and metrics, so that callbacks which watch them act wrongly. "
            "strategy='mirrored' trains on the same GPUs. Received: strategy='central_storage'"
        )
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
