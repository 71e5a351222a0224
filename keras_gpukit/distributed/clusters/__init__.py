"""Clusters, read from environment variables: one pair of functions for each kind."""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping

from keras_gpukit.distributed.clusters.environment import ClusterKind, Variables
from keras_gpukit.distributed.clusters.launchers import INDEXED_JOB, MPI, TRAIN_JOB
from keras_gpukit.distributed.clusters.slurm import SLURM
from keras_gpukit.distributed.clusters.tf_config import NAME, TF_CONFIG, is_set, this_worker
from keras_gpukit.records.cluster import Cluster

__all__ = ["KINDS", "read_cluster", "set_tf_config", "this_worker"]

SET_HERE = "GPUKIT_SET_TF_CONFIG"
"""Environment variable that is set where `TF_CONFIG` repeats what other variables say."""

# The first environment that detects itself reads the cluster. TF_CONFIG comes first, since it was
# set on purpose. mpirun and torchrun run within Slurm jobs and Kubernetes pods, never around them.
KINDS: tuple[ClusterKind, ...] = (TF_CONFIG, MPI, SLURM, TRAIN_JOB, INDEXED_JOB)


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
    for each in KINDS:
        if each.detects(environment):
            return each.read(Variables(environment))
    return None


def set_tf_config(environment: MutableMapping[str, str]) -> None:
    """Sets `TF_CONFIG` to the cluster that other variables describe, for scripts that read it."""
    cluster = read_cluster(environment)
    if cluster is not None and not is_set(environment):
        environment[NAME] = cluster.tf_config()
        environment[SET_HERE] = "1"
