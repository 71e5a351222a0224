"""The kinds of cluster environments, and which of them this process runs in."""

from __future__ import annotations

from collections.abc import Mapping

from keras_gpukit.distribute.clusters.environment import ClusterEnvironment, Variables
from keras_gpukit.distribute.clusters.kubernetes import (
    IndexedJob,
    KubeflowTFJob,
    KubeflowTrainJob,
)
from keras_gpukit.distribute.clusters.mpi import MPI
from keras_gpukit.distribute.clusters.slurm import Slurm
from keras_gpukit.distribute.clusters.tf_config import TFConfig
from keras_gpukit.records.cluster import Cluster

# The first that detects itself reads. TF_CONFIG was set on purpose; mpirun and torchrun run within
# jobs of Slurm and pods of Kubernetes, never around them.
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

    Reads nothing but the variables, and changes none.

    Args:
        environment: The variables, such as `os.environ`.

    Returns:
        None for a process that no cluster started, or that is the only one of its cluster.

    Raises:
        ClusterError: If they describe a cluster wrongly or in part. The message names the
            variable, what was received, and what to do.
    """
    for each in ENVIRONMENTS:
        if each.detects(environment):
            return each.read(Variables(environment))
    return None
