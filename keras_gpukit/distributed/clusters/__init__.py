"""Clusters, read from environment variables: `TF_CONFIG` here, other kinds in modules of their own.

`TF_CONFIG` is the variable that TensorFlow itself reads.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, MutableMapping
from typing import Any

from keras_gpukit.distributed.clusters.cluster_kind import (
    ClusterKind,
    Variables,
    check_addresses,
    wrong,
)
from keras_gpukit.distributed.clusters.launchers import INDEXED_JOB, MPI, TRAIN_JOB
from keras_gpukit.distributed.clusters.slurm import SLURM
from keras_gpukit.records.cluster import Cluster, worker_of
from keras_gpukit.records.environment import Worker

NAME = "TF_CONFIG"
SET_HERE = "GPUKIT_SET_TF_CONFIG"
"""Environment variable that is set where `TF_CONFIG` repeats what other variables say."""
TASK_TYPES = ("chief", "worker", "ps", "evaluator")
ADVICE = (
    'It must be such as {"cluster": {"worker": ["host1:port", "host2:port"]}, '
    '"task": {"type": "worker", "index": 0}}, with the same cluster in each process.'
)


def read_cluster(environment: Mapping[str, str]) -> Cluster | None:
    """Returns the cluster that environment variables describe, and this process's place in it.

    It only reads the variables, and changes none.

    Returns:
        The cluster; None if no cluster started this process, or if it is the only one in its
        cluster.

    Raises:
        ClusterError: If the description of the cluster is wrong or incomplete. The message names
            the variable, the value received, and what to do.
    """
    if environment.get(SET_HERE):
        environment = {name: text for name, text in environment.items() if name != NAME}
    for kind in KINDS:
        if kind.detects(environment):
            return kind.read(Variables(environment))
    return None


def set_tf_config(environment: MutableMapping[str, str]) -> None:
    """Sets `TF_CONFIG` to the cluster that other variables describe, for scripts that read it."""
    cluster = read_cluster(environment)
    if cluster is not None and not _is_set(environment):
        environment[NAME] = cluster.tf_config()
        environment[SET_HERE] = "1"


def this_worker(model: Any = None) -> Worker | None:
    """Returns this process's place in its cluster; None without one, or if it cannot be read.

    The cluster resolver of a model's strategy, such as that of Slurm, comes before `TF_CONFIG`.
    """
    try:
        strategy = getattr(model, "distribute_strategy", None)
        resolver = getattr(strategy, "cluster_resolver", None)
        if resolver is not None and resolver.task_type:
            cluster = resolver.cluster_spec().as_dict()
            return worker_of(cluster, resolver.task_type, resolver.task_id)
        config = json.loads(os.environ.get(NAME) or "{}")
        task = config.get("task", {})
        return worker_of(config.get("cluster", {}), task.get("type"), task.get("index"))
    except Exception:  # both may contain anything, and only strategies have to understand it
        return None


def _is_set(environment: Mapping[str, str]) -> bool:
    """Whether `TF_CONFIG` has content; as in TensorFlow, an empty one counts as unset."""
    return environment.get(NAME, "").strip() not in ("", "{}")


def _read(variables: Variables) -> Cluster | None:
    # The operator of a TFJob of Kubeflow sets it in each pod, and Kubernetes the other one.
    if variables.environment.get("KUBERNETES_SERVICE_HOST"):
        kind, source = "Kubernetes", "TF_CONFIG in a pod (Kubeflow TFJob)"
    else:
        kind = source = NAME
    text = variables.require(NAME, ADVICE)
    try:
        config = json.loads(text)
    except ValueError as error:
        raise wrong(NAME, text, f"must be JSON ({error})", ADVICE) from error
    addresses = _addresses(text, config)
    task_type, index = _task(text, config, addresses)
    if sum(map(len, addresses.values())) == 1 and task_type in addresses:
        return None
    return Cluster(kind, addresses, task_type, index, variables=variables.used, source=source)


def _addresses(text: str, config: Any) -> dict[str, tuple[str, ...]]:
    if not isinstance(config, dict) or not isinstance(config.get("cluster"), dict):
        raise wrong(NAME, text, 'must be an object with a "cluster"', ADVICE)
    addresses = {}
    for task_type, hosts in config["cluster"].items():
        if task_type not in TASK_TYPES:
            accepted = f'must have task types of {", ".join(TASK_TYPES)}, and "{task_type}" is none'
            raise wrong(NAME, text, accepted, ADVICE)
        if not isinstance(hosts, list) or not all(isinstance(host, str) for host in hosts):
            raise wrong(NAME, text, f'must have a list of addresses for "{task_type}"', ADVICE)
        if hosts:
            addresses[task_type] = tuple(hosts)
    if not addresses:
        raise wrong(NAME, text, "must have an address in its cluster", ADVICE)
    if len(addresses.get("chief", ())) > 1:
        raise wrong(NAME, text, "must have one chief at most", ADVICE)
    check_addresses(NAME, addresses, ADVICE)
    return addresses


def _task(text: str, config: dict[str, Any], addresses: Mapping[str, Any]) -> tuple[str, int]:
    task = config.get("task")
    if not isinstance(task, dict):
        raise wrong(NAME, text, 'must have a "task": which of the cluster this process is', ADVICE)
    task_type, index = task.get("type"), task.get("index")
    if isinstance(index, str) and index.isdigit():
        index = int(index)  # TensorFlow accepts a string, too
    if not isinstance(index, int) or isinstance(index, bool) or index < 0:
        raise wrong(NAME, text, 'must have a whole number from 0 on as the "index" of task', ADVICE)
    # An evaluator may be missing from the cluster, since it has no server.
    if task_type == "evaluator" and "evaluator" not in addresses:
        return "evaluator", index
    if not isinstance(task_type, str) or task_type not in addresses:
        accepted = f"must have a task of its cluster's types ({', '.join(addresses)})"
        raise wrong(NAME, text, accepted, ADVICE)
    if index >= len(addresses[task_type]):
        accepted = f"must have an index below {len(addresses[task_type])}, its {task_type}s"
        raise wrong(NAME, text, accepted, ADVICE)
    return task_type, index


TF_CONFIG = ClusterKind(_is_set, _read)
# The first environment that detects itself reads the cluster. TF_CONFIG comes first, since it was
# set on purpose. mpirun and torchrun run within Slurm jobs and Kubernetes pods, never around them.
KINDS: tuple[ClusterKind, ...] = (TF_CONFIG, MPI, SLURM, TRAIN_JOB, INDEXED_JOB)
