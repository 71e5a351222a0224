"""Which processes of this host belong to the same job as this one.

A process's environment says so: the variables with which it was started, as the system keeps them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

CLUSTER = "TF_CONFIG"
# All of a group are the same for the processes of one start, and for no others on this host.
_STARTS = (
    ("SLURM_JOB_ID", "SLURM_STEP_ID"),
    ("PMIX_NAMESPACE",),
    ("OMPI_MCA_ess_base_jobid",),
)


class JobProcesses:
    """Separates the processes of this process's job from others; looks each up only once."""

    def __init__(self) -> None:
        import psutil

        self._own = _job_of_process(psutil.Process())
        self._known: dict[tuple[int, str], bool] = {}

    def note(self, key: tuple[int, str], process: Any) -> None:
        """Looks a process up, unless it is known.

        Args:
            key: Its number and its name.
            process: The `psutil.Process`.
        """
        if self._own is not None and key not in self._known:
            self._known[key] = _job_of_process(process) == self._own

    def contains(self, key: tuple[int, str]) -> bool:
        """Returns whether a process that was looked up belongs to the job."""
        return self._known.get(key, False)


def job_of(environment: Mapping[str, str]) -> tuple[str, ...] | None:
    """Returns what identifies the job on this host; None where the variables describe none.

    Args:
        environment: The variables with which a process was started.
    """
    cluster = _cluster_of(environment.get(CLUSTER, ""))
    if cluster is not None:
        return CLUSTER, cluster
    for names in _STARTS:
        values = [environment.get(name, "") for name in names]
        if all(values):
            return (*names, *values)
    return None


def _cluster_of(text: str) -> str | None:
    """The addresses of a cluster, which are its own; each process adds its place in it."""
    try:
        cluster = json.loads(text)["cluster"]
    except (ValueError, TypeError, KeyError):
        return None
    return json.dumps(cluster, sort_keys=True) if cluster else None


def _job_of_process(process: Any) -> tuple[str, ...] | None:
    import psutil

    # Those of other users are not readable, and one may have ended since it was listed.
    try:
        return job_of(process.environ())
    except (psutil.Error, OSError):
        return None
