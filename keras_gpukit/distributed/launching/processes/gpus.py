"""Chooses which GPUs of this machine each worker sees."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from keras_gpukit.distributed.launching.job import Job
from keras_gpukit.rules.setup.visible_devices import VISIBLE, entries_of

NONE = "-1"


def shared_gpus(
    job: Job, environ: Mapping[str, str], count_gpus: Callable[[], int | None]
) -> list[str | None]:
    """Divides the GPUs among the workers.

    Args:
        job: Job with the number of workers, and of GPUs per worker.
        environ: Environment variables of the launcher. Workers get only GPUs that it can see.
        count_gpus: Function that returns the number of GPUs in the machine; None if unknown.

    Returns:
        The value of `CUDA_VISIBLE_DEVICES` for each worker; None leaves it unchanged.

    Raises:
        ValueError: If there are fewer GPUs than asked for, or fewer GPUs than workers. Two workers
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
    """Returns the index or UUID of each GPU that a process with this environment would see.

    Args:
        environ: Environment variables, with or without `CUDA_VISIBLE_DEVICES`. GPUs after an
            invalid index in it, such as -1, are invisible:
            https://docs.nvidia.com/cuda/cuda-c-programming-guide/#cuda-environment-variables
        count_gpus: Function that returns the number of GPUs in the machine; None if unknown.
    """
    if VISIBLE not in environ:
        return tuple(str(index) for index in range(count_gpus() or 0))
    return entries_of(environ[VISIBLE])


def count_gpus() -> int | None:
    """Returns the number of GPUs that the driver lists; None without a driver.

    Untested on a GPU.
    """
    from keras_gpukit.sensors.driver import read_driver

    driver = read_driver()
    return len(driver.gpus) if driver.error is None else None
