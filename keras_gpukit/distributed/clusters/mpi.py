"""Clusters of MPI-style launchers: mpirun, mpiexec and torchrun.

They give each process its rank and the number of processes, but not the addresses of the other
machines. If all processes are on this machine, the addresses are known. Otherwise
`GPUKIT_ADDRESSES` must give them.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass

from keras_gpukit.distributed.clusters.environment import (
    ClusterEnvironment,
    Variables,
    cluster_of,
    first_port,
    given_addresses,
    unknown_addresses,
    with_ports,
)
from keras_gpukit.records.cluster import Cluster


@dataclass(frozen=True)
class Launcher:
    """The names of a launcher's environment variables.

    Attributes:
        name: Name of the launcher, such as "torchrun".
        rank: Variable with the rank of the process.
        size: Variable with the number of processes.
        local_sizes: Variables with the number of processes on this machine; the first one that is
            set counts.
        jobs: Variables whose values other jobs on this machine do not share; the first one that is
            set counts.
    """

    name: str
    rank: str
    size: str
    local_sizes: tuple[str, ...]
    jobs: tuple[str, ...]


LAUNCHERS = (
    Launcher(
        "Open MPI's mpirun",
        "OMPI_COMM_WORLD_RANK",
        "OMPI_COMM_WORLD_SIZE",
        ("OMPI_COMM_WORLD_LOCAL_SIZE",),
        ("PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid"),
    ),
    Launcher(
        "MPICH's or Intel MPI's mpiexec",
        "PMI_RANK",
        "PMI_SIZE",
        ("MPI_LOCALNRANKS",),
        ("PMI_PORT", "HYDI_CONTROL_FD", "PMI_ID"),
    ),
    Launcher(
        "torchrun",
        "RANK",
        "WORLD_SIZE",
        ("LOCAL_WORLD_SIZE",),
        ("MASTER_PORT", "TORCHELASTIC_RUN_ID"),
    ),
)


class MPI(ClusterEnvironment):
    """Processes started by mpirun, mpiexec, torchrun or a similar launcher."""

    kind = "MPI"

    def detects(self, environment: Mapping[str, str]) -> bool:
        """Whether such a launcher set its variables, other than a Slurm step with equal values."""
        return _launcher(environment) is not None

    def read(self, variables: Variables) -> Cluster | None:
        """Returns the cluster; None if this process is the only one in it."""
        launcher = _launcher(variables.environment)
        assert launcher is not None
        advice = f"{launcher.name} sets {launcher.rank} and {launcher.size}; set both or neither."
        rank, size = variables.rank_and_size(launcher.rank, launcher.size, advice)
        if size == 1:
            return None
        addresses = given_addresses(variables, size)
        if addresses is None:
            local = next(filter(variables.get, launcher.local_sizes), None)
            if local is None or variables.whole_number(local, advice, least=1) != size:
                raise unknown_addresses(launcher.name, _known(variables), variables)
            addresses = with_ports(
                ["localhost"] * size, first_port(variables, _job(launcher, variables))
            )
        return cluster_of(self.kind, launcher.name, addresses, rank, variables)


def _launcher(environment: Mapping[str, str]) -> Launcher | None:
    """Returns the launcher whose variables are set; None if Slurm set the same rank and size.

    `srun --mpi=pmi2` sets MPICH's variables next to its own, and batch scripts set torchrun's. In
    both cases, Slurm knows the nodes. mpirun within a job step has ranks that differ from Slurm's.
    """
    slurm = (environment.get("SLURM_PROCID"), environment.get("SLURM_STEP_NUM_TASKS"))
    for each in LAUNCHERS:
        found = (environment.get(each.rank), environment.get(each.size))
        if any(found) and found != slurm:
            return each
    return None


def _known(variables: Variables) -> str:
    if master := variables.get("MASTER_ADDR"):
        return f"`MASTER_ADDR` gives the first one's machine, {master}, and none of the others."
    return "The processes are on several machines."


def _job(launcher: Launcher, variables: Variables) -> int:
    """Returns a number that the job's processes on this machine share, and other jobs rarely do."""
    job = next(filter(None, map(variables.get, launcher.jobs)), "")
    return zlib.crc32(job.encode())
