"""What is launched: a script, and how many processes run it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath

from keras_gpukit.arguments import check_log_dir, check_whole


@dataclass(frozen=True, kw_only=True)
class Job:
    """A training script, and the processes that run it; says nothing about where they run.

    Attributes:
        name: What the job is called, such as "train".
        command: The script and its arguments as they were given, or ("-m", module, argument, …).
        workers: Processes that train.
        parameter_servers: Processes that hold the variables. With any, the script runs in one more
            process, the chief, which coordinates the workers and trains nothing itself.
        gpus_per_worker: None to share out evenly those that there are; 0 for none.
        cpus_per_worker: None to leave it to where the job runs.
        restarts: How often all processes are started again after one of them failed.
        log_dir: Where each process gets a file with its output; None to write none.
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
        """All of them: with parameter servers, the chief too."""
        return self.workers + (self.parameter_servers + 1 if self.parameter_servers else 0)

    def __post_init__(self) -> None:
        """Checks each value.

        Raises:
            TypeError: If one is of the wrong type.
            ValueError: If one is out of range, or if there is no script. Both name the flag.
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
    """Returns what a job is called unless given: "train" for `train.py` and for `-m my.train`."""
    if command[:1] == ["-m"] or command[:1] == ("-m",):
        return command[1].rpartition(".")[2] if len(command) > 1 else ""
    return PurePath(command[0]).stem if command else ""
