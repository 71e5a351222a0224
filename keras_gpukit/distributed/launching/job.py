"""The job to launch: a script, and the tasks that run it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath

from keras_gpukit.arguments import check_log_dir, check_whole
from keras_gpukit.records.cluster import Cluster


@dataclass(frozen=True, kw_only=True)
class Job:
    """A training script and the processes that run it, wherever the job runs.

    Attributes:
        name: Name of the job, such as "train".
        command: The script and its arguments as they were given, or ("-m", module, argument, …).
        workers: Number of processes that train.
        parameter_servers: Number of processes that hold the variables. If there are any, the
            script runs in one more process, the chief, which coordinates the workers and does not
            train itself.
        gpus_per_worker: GPUs for each worker; None divides the available ones evenly, 0 uses none.
        cpus_per_worker: Processors for each worker; None uses the default of the system that runs
            the job.
        restarts: Maximum number of times that all processes are restarted after one failed.
        log_dir: Folder for a file with the output of each process; None writes no files.
    """

    name: str
    command: tuple[str, ...]
    workers: int = 1
    parameter_servers: int = 0
    gpus_per_worker: int | None = None
    cpus_per_worker: int | None = None
    restarts: int = 0
    log_dir: Path | None = None

    @property
    def processes(self) -> int:
        """Number of all processes; with parameter servers, this includes the chief."""
        return self.workers + (self.parameter_servers + 1 if self.parameter_servers else 0)

    def __post_init__(self) -> None:
        """Checks each value."""
        script = self.command[1:2] if self.command[:1] == ("-m",) else self.command[:1]
        if not script or not script[0]:
            raise ValueError(
                f"Give the SCRIPT to run, or -m MODULE. Received: command={self.command!r}"
            )
        if not self.name:
            raise ValueError("The job needs a name. Received: name=''")
        check_whole("--workers", self.workers)
        check_whole("--ps", self.parameter_servers, least=0)
        check_whole("--gpus-per-worker", self.gpus_per_worker, least=0, optional=True)
        check_whole("--cpus-per-worker", self.cpus_per_worker, optional=True)
        check_whole("--restarts", self.restarts, least=0)
        check_log_dir(self.log_dir)


def job_name(command: Sequence[str]) -> str:
    """Returns the default name of a job: "train" for `train.py` and for `-m my.train`."""
    if command[:1] == ["-m"] or command[:1] == ("-m",):
        return command[1].rpartition(".")[2] if len(command) > 1 else ""
    return PurePath(command[0]).stem if command else ""


CLUSTER = "TF_CONFIG"
RUNNER = ("-m", "keras_gpukit.scripts.launched_script")
"""Arguments of Python before a script, so that it trains on several workers without a change."""
SERVERS = "keras_gpukit.distributed.launching.servers"
"""Module that runs the processes of a job which run no script."""


@dataclass(frozen=True)
class Task:
    """One process of a job, of a type as in `TF_CONFIG`: "chief", "worker" or "ps".

    One that does not run the script is a server that gets work from the chief. `is_chief` is the
    one whose progress is shown.
    """

    type: str
    index: int
    runs_script: bool = True
    is_chief: bool = False

    @property
    def name(self) -> str:
        """Name of the task, such as "worker 1" or "chief"."""
        return self.type if self.type == "chief" else f"{self.type} {self.index}"


def tasks_of(job: Job) -> tuple[Task, ...]:
    """Returns the tasks of a job, the chief first, which without parameter servers is a worker."""
    if not job.parameter_servers:
        return tuple(Task("worker", i, is_chief=i == 0) for i in range(job.workers))
    return (
        Task("chief", 0, is_chief=True),
        *(Task("worker", i, runs_script=False) for i in range(job.workers)),
        *(Task("ps", i, runs_script=False) for i in range(job.parameter_servers)),
    )


def cluster_variables(
    tasks: Sequence[Task], addresses: Sequence[str]
) -> dict[Task, dict[str, str]]:
    """Returns the environment variables that describe the cluster to each task."""
    by_type: dict[str, tuple[str, ...]] = {}
    for task, address in zip(tasks, addresses, strict=True):
        by_type[task.type] = (*by_type.get(task.type, ()), address)
    # Calls to a server that has died fail immediately, so the coordinator gives the work to
    # another one: tensorflow.org/tutorials/distribute/parameter_server_training
    fault_tolerance = {"GRPC_FAIL_FAST": "use_caller"} if "ps" in by_type else {}
    clusters = {task: Cluster(CLUSTER, by_type, task.type, task.index) for task in tasks}
    return {
        task: {CLUSTER: cluster.tf_config(), **fault_tolerance}
        for task, cluster in clusters.items()
    }
