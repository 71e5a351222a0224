"""Batch scripts for Slurm."""

from __future__ import annotations

import math

from keras_gpukit.distributed.launching.job import Job
from keras_gpukit.distributed.launching.rendering import render
from keras_gpukit.version import __version__


def batch_script(job: Job, *, python: str = "python") -> str:
    """Returns a script for `sbatch` that runs a job, with the reason for each of its settings.

    Each worker gets a separate node, with all of the worker's GPUs. A chief and parameter servers
    share the workers' nodes.

    Args:
        job: The job to run.
        python: Python interpreter on the nodes.

    Raises:
        ValueError: If the job's name or log folder cannot be written in a line of `#SBATCH`.
    """
    log_dir = "" if job.log_dir is None else str(job.log_dir)
    for name, value in (("name", job.name), ("log_dir", log_dir)):
        if any(each.isspace() or each in "\"'\\%" for each in value):
            raise ValueError(
                f"`{name}` must have no spaces, quotes, backslashes or % for Slurm. "
                f"Received: {name}={value!r}"
            )
    tasks = job.processes
    return render(
        "slurm.sh.j2",
        job=job,
        tasks=tasks,
        most_on_a_node=math.ceil(tasks / job.workers),
        without_gpu=[0, *range(job.workers + 1, tasks)],
        output=f"{log_dir}/%x-%j.out" if log_dir else "%x-%j.out",
        command=(python, *job.command),
        version=__version__,
    )
