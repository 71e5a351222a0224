"""What is started on this machine, and where its output goes."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from keras_gpukit.launching.job import Job
from keras_gpukit.launching.output.log_files import LogFiles
from keras_gpukit.launching.output.screen import Screen
from keras_gpukit.launching.processes.gpus import NONE, count_gpus, shared_gpus
from keras_gpukit.launching.processes.tasks import CLUSTER, Task, tasks_of
from keras_gpukit.rules.visible_devices import VISIBLE

_SERVER = ("-m", "keras_gpukit.launching.servers", "training")


@dataclass(frozen=True)
class Start:
    """What is needed to start a task's process.

    Attributes:
        task: What it is.
        command: What it runs.
        variables: Environment variables of its own, without those of the cluster.
        cpus: The processors it may use; empty for all.
    """

    task: Task
    command: tuple[str, ...]
    variables: dict[str, str] = field(default_factory=dict)
    cpus: tuple[int, ...] = ()


@dataclass(frozen=True)
class Output:
    """Where output goes.

    Attributes:
        screens: For standard output and standard error; the same one for both in a terminal.
        logs: A file for each process.
    """

    screens: tuple[Screen, Screen]
    logs: LogFiles

    def tell(self, text: str) -> None:
        """Prints a message of the launcher."""
        self.screens[1].write_line(f"keras-gpukit launch: {text}".encode())


def plan_starts(
    job: Job,
    environ: Mapping[str, str],
    *,
    cpus: Sequence[int],
    runner: tuple[str, ...] = (),
    variables: Mapping[str, str] = MappingProxyType({}),
) -> tuple[Start, ...]:
    """Plans the start of each of a job's tasks on this machine.

    Args:
        job: What to start.
        environ: The launcher's environment.
        cpus: The processors that the launcher may use.
        runner: Arguments of Python that come before the script and run it.
        variables: Environment variables for all.

    Raises:
        ValueError: If the machine has too few GPUs or processors, or if this process is part of a
            cluster already.
    """
    if CLUSTER in environ:
        raise ValueError(
            "TF_CONFIG is set, so that this process is part of a cluster already; the processes "
            "that it starts would leave that one. Start the script with `python` in each process "
            f"of the cluster, or unset TF_CONFIG. Received: TF_CONFIG={environ[CLUSTER]!r}"
        )
    gpus = shared_gpus(job, environ, count_gpus)
    each = job.cpus_per_worker or 0
    if each * job.workers > len(cpus):
        raise ValueError(
            f"{job.workers} workers with {each} processors each need {each * job.workers}, and "
            f"this process may use {len(cpus)}. Received: --workers={job.workers}, "
            f"--cpus-per-worker={job.cpus_per_worker}"
        )
    starts = []
    for task in tasks_of(job):
        # What a script prints is to be seen when it does so, not once a buffer of 8 KiB is full.
        own = {"PYTHONUNBUFFERED": environ.get("PYTHONUNBUFFERED") or "1", **variables}
        is_worker = task.type == "worker"
        visible = gpus[task.index] if is_worker else NONE
        if visible is not None:
            own[VISIBLE] = visible
        command = (*runner, *job.command) if task.runs_script else _SERVER
        bound = tuple(cpus[each * task.index : each * (task.index + 1)]) if is_worker else ()
        starts.append(Start(task, (sys.executable, *command), own, bound))
    return tuple(starts)


def usable_cpus() -> tuple[int, ...]:
    """Returns the processors that this process may use; all where the system cannot say."""
    if sys.platform == "linux":
        return tuple(sorted(os.sched_getaffinity(0)))
    return tuple(range(os.cpu_count() or 1))
