"""Runs a job on this machine: on which GPUs and processors, and again after failures."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence

from keras_gpukit.distributed.launching.attempt import JobAttempt
from keras_gpukit.distributed.launching.failures import describe, first_failure
from keras_gpukit.distributed.launching.job import CLUSTER, RUNNER, Job, tasks_of
from keras_gpukit.distributed.launching.output import Output, Screen
from keras_gpukit.distributed.launching.workers import ProcessPlan, caught_signals
from keras_gpukit.rules.setup.no_gpu import VISIBLE, entries_of

NONE = "-1"
"""The value of `CUDA_VISIBLE_DEVICES` that shows no GPU."""
_SERVER = ("-m", "keras_gpukit.distributed.launching.servers", "training")


def launch(
    job: Job,
    *,
    timeout_s: float,
    grace_s: float,
    runner: tuple[str, ...] = RUNNER,
    variables: Mapping[str, str] | None = None,
) -> int:
    """Runs a job's processes on this machine until all have ended.

    Returns:
        The exit code: 0, the exit code of the process that failed first, or 128 plus the number of
        the signal that ended that process or the launcher.
    """
    plans = plan_processes(
        job, os.environ, cpus=usable_cpus(), runner=runner, variables=variables or {}
    )
    out, err = Screen(sys.stdout, os.environ), Screen(sys.stderr, os.environ)
    both = (out, out) if out.is_terminal and err.is_terminal else (out, err)
    output = Output(both, " ".join(job.command), job.log_dir)
    gpus = [(plan.task.name, plan.variables.get(VISIBLE, NONE)) for plan in plans]
    shares = [f"{name}: {share}" for name, share in gpus if share != NONE]
    if shares:
        output.say(f"GPUs of {', of '.join(shares)}.")
    restarts = job.restarts
    with caught_signals() as signals:
        while True:
            attempt = JobAttempt(plans, output, signals, arrival_s=timeout_s, grace_s=grace_s)
            attempt.run()
            if attempt.ended_by is not None:
                return 128 + attempt.ended_by
            if not attempt.failures:
                return 0
            failure = first_failure(attempt.failures)
            name = failure.task.name
            if output.screens[1].last != name:  # what is seen last is not repeated
                for line in failure.last_words:
                    output.screens[1].write_line(line, name)
            output.say(describe(failure, [e for e in attempt.failures if e is not failure]))
            if not restarts:
                return failure.exit_code
            output.say(f"All are started again; restarts left after this one: {restarts - 1}.")
            restarts -= 1


def plan_processes(
    job: Job,
    environ: Mapping[str, str],
    *,
    cpus: Sequence[int],
    runner: tuple[str, ...],
    variables: Mapping[str, str],
) -> tuple[ProcessPlan, ...]:
    """Plans the process of each of a job's tasks on this machine."""
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
