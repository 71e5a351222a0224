"""The job to launch: a script, and the processes that run it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath

from keras_gpukit.arguments import check_log_dir, check_whole


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
        """Checks each value.

        Raises:
            TypeError: If a value is of the wrong type; the message names the flag.
            ValueError: If a value is out of range, which names the flag, or there is no script.
        """
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
