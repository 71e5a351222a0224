"""Which GPUs of this machine each worker sees."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from keras_gpukit.launching.job import Job
from keras_gpukit.rules.visible_devices import VISIBLE, entries_of

NONE = "-1"


def shared_gpus(
    job: Job, environ: Mapping[str, str], count_gpus: Callable[[], int | None]
) -> list[str | None]:
    """Shares the GPUs out among the workers.

    Args:
        job: Says how many workers there are, and how many GPUs each gets.
        environ: The launcher's environment: only GPUs that it shows are given to workers.
        count_gpus: Counts the machine's GPUs; None where that cannot be known.

    Returns:
        `CUDA_VISIBLE_DEVICES` of each worker; None where it stays as it is.

    Raises:
        ValueError: If there are fewer GPUs than asked for, or fewer than workers: two workers
            cannot train on one GPU, since NCCL refuses to connect a GPU with itself.
    """
    if job.gpus_per_worker == 0:
        return [NONE] * job.workers
    gpus = visible_gpus(environ, count_gpus)
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


def visible_gpus(
    environ: Mapping[str, str], count_gpus: Callable[[], int | None]
) -> tuple[str, ...]:
    """Returns the index or UUID of each GPU that a process of this environment would see.

    Args:
        environ: With or without `CUDA_VISIBLE_DEVICES`. Those after an invalid index, such as -1,
            are invisible:
            https://docs.nvidia.com/cuda/cuda-c-programming-guide/#cuda-environment-variables
        count_gpus: Counts the machine's GPUs; None where that cannot be known.
    """
    if VISIBLE not in environ:
        return tuple(str(index) for index in range(count_gpus() or 0))
    return entries_of(environ[VISIBLE])


def count_gpus() -> int | None:
    """Counts the GPUs that the driver lists; None without a driver. Untested on a GPU."""
    from keras_gpukit.sensors.driver import read_driver

    driver = read_driver()
    return len(driver.gpus) if driver.error is None else None
