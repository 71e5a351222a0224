"""Plans which processes start on this machine, on which GPUs and processors."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from keras_gpukit.distributed.launching.job import CLUSTER, Job, Task, tasks_of
from keras_gpukit.rules.setup.visible_devices import VISIBLE, entries_of

NONE = "-1"
"""The value of `CUDA_VISIBLE_DEVICES` that shows no GPU."""
_SERVER = ("-m", "keras_gpukit.distributed.launching.servers", "training")


@dataclass(frozen=True)
class ProcessPlan:
    """Everything that is needed to start the process of a task.

    Attributes:
        task: Task of the process.
        command: Command line of the process.
        variables: Environment variables of this process, without those of the cluster.
        cpus: Processors that the process may use; empty for all.
    """

    task: Task
    command: tuple[str, ...]
    variables: dict[str, str] = field(default_factory=dict)
    cpus: tuple[int, ...] = ()


def plan_processes(
    job: Job,
    environ: Mapping[str, str],
    *,
    cpus: Sequence[int],
    runner: tuple[str, ...],
    variables: Mapping[str, str],
) -> tuple[ProcessPlan, ...]:
    """Plans the process of each of a job's tasks on this machine.

    Raises:
        ValueError: If the machine has too few GPUs or processors, or if this process is already
            part of a cluster.
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
    plans = []
    for task in tasks_of(job):
        # Output should appear when the script prints it, not once a buffer of 8 KiB is full.
        own = {"PYTHONUNBUFFERED": environ.get("PYTHONUNBUFFERED") or "1", **variables}
        is_worker = task.type == "worker"
        visible = gpus[task.index] if is_worker else NONE
        if visible is not None:
            own[VISIBLE] = visible
        command = (*runner, *job.command) if task.runs_script else _SERVER
        bound = tuple(cpus[each * task.index : each * (task.index + 1)]) if is_worker else ()
        plans.append(ProcessPlan(task, (sys.executable, *command), own, bound))
    return tuple(plans)


def usable_cpus() -> tuple[int, ...]:
    """Returns the processors that this process may use; all if the system does not report them."""
    if sys.platform == "linux":
        return tuple(sorted(os.sched_getaffinity(0)))
    return tuple(range(os.cpu_count() or 1))


def shared_gpus(
    job: Job, environ: Mapping[str, str], count_gpus: Callable[[], int | None]
) -> list[str | None]:
    """Divides the GPUs among the workers.

    Returns:
        The value of `CUDA_VISIBLE_DEVICES` for each worker; None leaves it unchanged.
    """
    if job.gpus_per_worker == 0:
        return [NONE] * job.workers
    if VISIBLE in environ:
        gpus = entries_of(environ[VISIBLE])
    else:
        gpus = tuple(str(index) for index in range(count_gpus() or 0))
    each = job.gpus_per_worker
    if each is None:
        if not gpus:
            return [None] * job.workers
        each = len(gpus) // job.workers
    if each == 0 or each * job.workers > len(gpus):
        shown = "CUDA_VISIBLE_DEVICES shows" if VISIBLE in environ else "this machine has"
        raise ValueError(
            f"{job.workers} workers need at least {job.workers * max(each, 1)} GPUs, one or more "
            f"of its own for each, and {shown} {len(gpus)}. Start fewer workers, or train on CPUs "
            f"with --gpus-per-worker 0. Received: --workers={job.workers}, "
            f"--gpus-per-worker={job.gpus_per_worker}"
        )
    return [",".join(gpus[each * i : each * (i + 1)]) for i in range(job.workers)]


def count_gpus() -> int | None:
    """Returns the number of GPUs that the driver lists; None without one. Untested on a GPU."""
    from keras_gpukit.sensors.driver import read_driver

    driver = read_driver()
    return len(driver.gpus) if driver.error is None else None
