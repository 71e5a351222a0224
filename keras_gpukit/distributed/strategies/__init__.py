"""The strategies of `configure_gpus`: a choice and a maker for each kind."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from keras_gpukit.distributed.repairs.several_workers import is_chief, is_multi_worker
from keras_gpukit.distributed.strategies import in_one_process, over_cluster
from keras_gpukit.distributed.strategies.in_one_process import (
    Choice,
    Resources,
    adopt,
    mirrored_devices,
)
from keras_gpukit.distributed.strategies.over_cluster import cluster_strategy

__all__ = [
    "ACCEPTED",
    "ACTIONS",
    "NAMES",
    "Resources",
    "adopt",
    "choose",
    "cluster_strategy",
    "is_chief",
    "is_multi_worker",
    "make",
    "mirrored_devices",
]

# Each makes a choice from the resources, and the strategy from the choice's value.
_KINDS: dict[str, tuple[Callable[[Resources], Choice], Callable[[Any], Any]]] = {
    "one_device": (in_one_process.choose_one_device, in_one_process.make_one_device),
    "mirrored": (in_one_process.choose_mirrored, in_one_process.make_mirrored),
    "multi_worker": (over_cluster.choose_multi_worker, over_cluster.make_multi_worker),
    "parameter_server": (over_cluster.choose_parameter_server, over_cluster.make_parameter_server),
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
