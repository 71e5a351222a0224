"""The strategies of `configure_gpus`: a class for each kind, and the objects of this process."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from keras_gpukit.distributed.repairs.keras_private import is_chief, is_multi_worker
from keras_gpukit.distributed.strategies.kind import Choice, Resources, StrategyKind
from keras_gpukit.distributed.strategies.of_this_process import (
    adopt,
    cluster_strategy,
    mirrored_devices,
)
from keras_gpukit.distributed.strategies.one_process import Mirrored, OneDevice
from keras_gpukit.distributed.strategies.over_cluster import MultiWorker, ParameterServer

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

_KINDS: dict[str, StrategyKind] = {
    kind.name: kind for kind in (OneDevice(), Mirrored(), MultiWorker(), ParameterServer())
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
    """Returns the name of the kind that a strategy name stands for, and its choice; makes nothing.

    Raises:
        ValueError: If the strategy is not possible here.
    """
    if name == "auto":
        return _choose_auto(there)
    if name == "none":
        return name, Choice(None, "as asked")
    if name in _REFUSED:
        raise ValueError(_REFUSED[name])
    return name, _KINDS[name].choose(there)


def make(name: str, value: Any) -> Any:
    """Returns the `tf.distribute` strategy of a kind, given the value of its choice."""
    return _KINDS[name].make(value)


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
    choice = _KINDS[name].choose(there)
    return name, replace(choice, reason=f"{choice.reason}; chosen as {why}")
