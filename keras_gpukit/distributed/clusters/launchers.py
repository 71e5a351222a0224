"""Clusters whose launcher gives each process a rank and the size: MPI's, torchrun, Kubernetes.

mpirun, mpiexec and torchrun give no addresses of other machines: they are known if all processes
are on this one. The pods of a Kubeflow TrainJob (Trainer 2.3, in `pkg/runtime/framework/plugins`)
get the variables of torchrun's options from the policy `torch`, those of JAX from `jax`. Both give
the address of the first pod, whose host name ends in the pod's index, as in every job of a JobSet:
`train-node-0-0.train`. For an Indexed Job with a headless Service the manifest sets the number of
pods and their addresses, as `keras-gpukit launch --kubernetes` writes it.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from typing import NamedTuple

from keras_gpukit.distributed.clusters.cluster_kind import (
    ADDRESSES,
    ClusterKind,
    Variables,
    first_port,
    read_ranks,
    unknown_addresses,
    with_ports,
    wrong,
)
from keras_gpukit.records.cluster import Cluster

KUBERNETES = "Kubernetes"
WORKERS = "GPUKIT_WORKERS"
INDEX = "JOB_COMPLETION_INDEX"
_JOB_ADVICE = (
    "Set it in the manifest to the Job's completions, or to 1 where each pod of the Job trains "
    "alone."
)
_INDEX_ADVICE = "Set completionMode: Indexed and as many completions in the Job's manifest."


class _MPI(NamedTuple):
    """The names of a launcher's variables; of `jobs`, the first that is set counts."""

    name: str
    rank: str
    size: str
    local_size: str
    jobs: tuple[str, ...]


_MPIS = (
    _MPI(
        "Open MPI's mpirun",
        "OMPI_COMM_WORLD_RANK",
        "OMPI_COMM_WORLD_SIZE",
        "OMPI_COMM_WORLD_LOCAL_SIZE",
        ("PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid"),
    ),
    _MPI(
        "MPICH's or Intel MPI's mpiexec",
        "PMI_RANK",
        "PMI_SIZE",
        "MPI_LOCALNRANKS",
        ("PMI_PORT", "HYDI_CONTROL_FD", "PMI_ID"),
    ),
    _MPI(
        "torchrun",
        "RANK",
        "WORLD_SIZE",
        "LOCAL_WORLD_SIZE",
        ("MASTER_PORT", "TORCHELASTIC_RUN_ID"),
    ),
)
# Variables with the rank, the size, the first address, and its port if the address has none.
_TRAIN_JOBS = (
    ("PET_NODE_RANK", "PET_NNODES", "PET_MASTER_ADDR", "PET_MASTER_PORT"),
    ("JAX_PROCESS_ID", "JAX_NUM_PROCESSES", "JAX_COORDINATOR_ADDRESS", None),
)


def _mpi(environment: Mapping[str, str]) -> _MPI | None:
    """Returns the launcher whose variables are set; None if Slurm set the same rank and size.

    `srun --mpi=pmi2` sets MPICH's variables next to its own, and batch scripts set torchrun's. In
    both cases, Slurm knows the nodes. mpirun within a job step has ranks that differ from Slurm's.
    """
    slurm = (environment.get("SLURM_PROCID"), environment.get("SLURM_STEP_NUM_TASKS"))
    for launcher in _MPIS:
        found = (environment.get(launcher.rank), environment.get(launcher.size))
        if any(found) and found != slurm:
            return launcher
    return None


def _read_mpi(variables: Variables) -> Cluster | None:
    launcher = _mpi(variables.environment)
    assert launcher is not None
    advice = f"{launcher.name} sets {launcher.rank} and {launcher.size}; set both or neither."

    def on_this_machine(rank: int, size: int) -> tuple[str, ...]:
        local = launcher.local_size
        if not variables.get(local) or variables.whole_number(local, advice, least=1) != size:
            known = "The processes are on several machines."
            if master := variables.get("MASTER_ADDR"):
                known = f"`MASTER_ADDR` gives the first one's machine, {master}, and none of the "
                known += "others."
            raise unknown_addresses(launcher.name, known, variables)
        # The job's processes share this text, and other jobs on the machine rarely do.
        job = next(filter(None, map(variables.get, launcher.jobs)), "")
        port = first_port(variables, zlib.crc32(job.encode()))
        return with_ports(["localhost"] * size, port)

    names = launcher.rank, launcher.size
    return read_ranks("MPI", launcher.name, variables, names, (advice, advice), on_this_machine)


def _read_train_job(variables: Variables) -> Cluster | None:
    names = next(job for job in _TRAIN_JOBS if variables.get(job[0]))
    rank_name, size_name, address_name, port_name = names
    advice = f"A TrainJob sets it together with {rank_name}; set it, or unset that."

    def pods(rank: int, size: int) -> tuple[str, ...]:
        first = variables.require(address_name, advice)
        if port_name is not None:
            first += f":{variables.whole_number(port_name, advice, least=1)}"
        address, colon, port = first.rpartition(":")
        host, dot, domain = address.partition(".")
        base, _, index = host.rpartition("-")
        if not (colon and base) or index != "0":
            accepted = "must be a pod's host name that ends in -0, its index"
            how = f"Set {ADDRESSES} to one host:port for each pod, separated by commas."
            raise wrong(address_name, variables.used[address_name], accepted, how)
        return tuple(f"{base}-{pod}{dot}{domain}:{port}" for pod in range(size))

    source = "Kubeflow TrainJob"
    advices = (advice, advice)
    return read_ranks(KUBERNETES, source, variables, (rank_name, size_name), advices, pods)


def _read_indexed_job(variables: Variables) -> Cluster | None:
    def unknown(rank: int, size: int) -> tuple[str, ...]:
        known = "A manifest knows the host names of its pods."
        raise unknown_addresses("The Indexed Job", known, variables)

    advices = (_INDEX_ADVICE, _JOB_ADVICE)
    source = "Kubernetes Indexed Job"
    return read_ranks(KUBERNETES, source, variables, (INDEX, WORKERS), advices, unknown)


MPI = ClusterKind(lambda environment: _mpi(environment) is not None, _read_mpi)
TRAIN_JOB = ClusterKind(
    lambda environment: any(environment.get(names[0]) for names in _TRAIN_JOBS), _read_train_job
)
# Kubernetes set the index of the pod, or a manifest set the number of pods.
INDEXED_JOB = ClusterKind(
    lambda environment: bool(environment.get(INDEX) or environment.get(WORKERS)), _read_indexed_job
)
