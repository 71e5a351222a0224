"""Clusters in the pods of Kubernetes: Kubeflow's TFJob and TrainJob, and plain Indexed Jobs."""

from __future__ import annotations

from collections.abc import Mapping

from keras_gpukit.distributed.clusters import tf_config
from keras_gpukit.distributed.clusters.environment import (
    ADDRESSES,
    ClusterEnvironment,
    Variables,
    cluster_of,
    given_addresses,
    unknown_addresses,
    wrong,
)
from keras_gpukit.records.cluster import Cluster

KIND = "Kubernetes"
WORKERS = "GPUKIT_WORKERS"
INDEX = "JOB_COMPLETION_INDEX"


class KubeflowTFJob(ClusterEnvironment):
    """A TFJob of Kubeflow: its operator sets `TF_CONFIG` in each pod."""

    kind = KIND

    def detects(self, environment: Mapping[str, str]) -> bool:
        """Whether `TF_CONFIG` is set in a pod, where Kubernetes sets `KUBERNETES_SERVICE_HOST`."""
        return tf_config.TFConfig().detects(environment) and bool(
            environment.get("KUBERNETES_SERVICE_HOST")
        )

    def read(self, variables: Variables) -> Cluster | None:
        """Returns the cluster; None if this process is the only one in it."""
        return tf_config.read_tf_config(variables, self.kind, "TF_CONFIG in a pod (Kubeflow TFJob)")


class KubeflowTrainJob(ClusterEnvironment):
    """A TrainJob of Kubeflow Trainer, with a runtime whose policy is `torch` or `jax`.

    `torch` sets the variables of torchrun's options, `jax` those of JAX (Trainer 2.3, in
    `pkg/runtime/framework/plugins`). Both give the address of the first pod. Its host name ends in
    the pod's index, as in every job of a JobSet: `train-node-0-0.train`.
    """

    kind = KIND

    def detects(self, environment: Mapping[str, str]) -> bool:
        """Whether the variables of one of the two policies are set."""
        return any(environment.get(rank) for rank, _, _, _ in _TRAIN_JOB)

    def read(self, variables: Variables) -> Cluster | None:
        """Returns the cluster of the pods; None if there is only one pod."""
        names = next(each for each in _TRAIN_JOB if variables.get(each[0]))
        rank_name, size_name, address_name, port_name = names
        advice = f"A TrainJob sets it together with {rank_name}; set it, or unset that."
        rank, size = variables.rank_and_size(rank_name, size_name, advice)
        if size == 1:
            return None
        addresses = given_addresses(variables, size)
        if addresses is None:
            first = variables.require(address_name, advice)
            if port_name is not None:
                first += f":{variables.whole_number(port_name, advice, least=1)}"
            addresses = _pods(first, size)
        if addresses is None:
            accepted = "must be a pod's host name that ends in -0, its index"
            advice = f"Set {ADDRESSES} to one host:port for each pod, separated by commas."
            raise wrong(address_name, variables.used[address_name], accepted, advice)
        return cluster_of(self.kind, "Kubeflow TrainJob", addresses, rank, variables)


# Variables with the rank, the size, the first address, and its port if the address has none.
_TRAIN_JOB = (
    ("PET_NODE_RANK", "PET_NNODES", "PET_MASTER_ADDR", "PET_MASTER_PORT"),
    ("JAX_PROCESS_ID", "JAX_NUM_PROCESSES", "JAX_COORDINATOR_ADDRESS", None),
)


def _pods(first: str, size: int) -> tuple[str, ...] | None:
    """Returns the addresses of all pods, given the first one; None if that does not end in -0."""
    address, colon, port = first.rpartition(":")
    host, dot, domain = address.partition(".")
    base, dash, index = host.rpartition("-")
    if not (colon and base and dash) or index != "0":
        return None
    return tuple(f"{base}-{each}{dot}{domain}:{port}" for each in range(size))


class IndexedJob(ClusterEnvironment):
    """An Indexed Job with a headless Service, as `keras-gpukit launch --kubernetes` writes it.

    Kubernetes sets the index of each pod. The manifest must set the number of pods in
    `GPUKIT_WORKERS`, and their addresses in `GPUKIT_ADDRESSES`, as "train-{index}.train:2222".
    """

    kind = KIND

    def detects(self, environment: Mapping[str, str]) -> bool:
        """Whether Kubernetes set the index of the pod, or a manifest set the number of pods."""
        return bool(environment.get(INDEX) or environment.get(WORKERS))

    def read(self, variables: Variables) -> Cluster | None:
        """Returns the cluster of the Job's pods; None if there is one pod, or each trains alone."""
        size = variables.whole_number(WORKERS, _JOB_ADVICE, least=1)
        if size == 1:
            return None
        rank, size = variables.rank_and_size(INDEX, WORKERS, _INDEX_ADVICE)
        addresses = given_addresses(variables, size)
        if addresses is None:
            known = "A manifest knows the host names of its pods."
            raise unknown_addresses("The Indexed Job", known, variables)
        return cluster_of(self.kind, "Kubernetes Indexed Job", addresses, rank, variables)


_JOB_ADVICE = (
    "Set it in the manifest to the Job's completions, or to 1 where each pod of the Job trains "
    "alone."
)
_INDEX_ADVICE = "Set completionMode: Indexed and as many completions in the Job's manifest."
