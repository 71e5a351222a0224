"""Clusters, read from environment variables: one class for each kind of environment."""

from __future__ import annotations

from collections.abc import Mapping

from keras_gpukit.distributed.clusters.environment import ClusterEnvironment, Variables
from keras_gpukit.distributed.clusters.kubernetes import (
    IndexedJob,
    KubeflowTFJob,
    KubeflowTrainJob,
)
from keras_gpukit.distributed.clusters.mpi import MPI
from keras_gpukit.distributed.clusters.slurm import Slurm
from keras_gpukit.distributed.clusters.tf_config import TFConfig, this_worker
from keras_gpukit.records.cluster import Cluster

__all__ = ["ENVIRONMENTS", "read_cluster", "this_worker"]

# The first environment that detects itself reads the cluster. TF_CONFIG comes first, since it was
# set on purpose. mpirun and torchrun run within Slurm jobs and Kubernetes pods, never around them.
ENVIRONMENTS: tuple[ClusterEnvironment, ...] = (
    KubeflowTFJob(),
    TFConfig(),
    MPI(),
    Slurm(),
    KubeflowTrainJob(),
    IndexedJob(),
)


def read_cluster(environment: Mapping[str, str]) -> Cluster | None:
    """Returns the cluster that environment variables describe, and this process's place in it.

    It only reads the variables, and changes none.

    Args:
        environment: The variables, such as `os.environ`.

    Returns:
        The cluster; None if no cluster started this process, or if it is the only one in its
        cluster.

    Raises:
        ClusterError: If the description of the cluster is wrong or incomplete. The message names
            the variable, the value received, and what to do.
    """
    for each in ENVIRONMENTS:
        if each.detects(environment):
            return each.read(Variables(environment))
    return None
