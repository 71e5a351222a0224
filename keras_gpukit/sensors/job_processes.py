"""Identifies the processes on this host that belong to the same job as this one.

A job is recognized by its processes' environments: the variables with which each was started, as
the system keeps them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

CLUSTER = "TF_CONFIG"
# Groups of variables. All variables of a group are equal in the processes of one start, and in no
# other processes on this host.
_STARTS = (
    ("SLURM_JOB_ID", "SLURM_STEP_ID"),
    ("PMIX_NAMESPACE",),
    ("OMPI_MCA_ess_base_jobid",),
)


class JobProcesses:
    """Separates the processes of this process's job from others; looks up each one only once."""

    def __init__(self) -> None:
        import psutil

        self._own = _job_of_process(psutil.Process())
        self._known: dict[tuple[int, str], bool] = {}

    def note(self, key: tuple[int, str], process: Any) -> None:
        """Looks up a process, unless it was looked up before.

        Args:
            key: PID and name of the process.
            process: The `psutil.Process`.
        """
        if self._own is not None and key not in self._known:
            self._known[key] = _job_of_process(process) == self._own

    def contains(self, key: tuple[int, str]) -> bool:
        """Returns whether a process that was looked up belongs to the job."""
        return self._known.get(key, False)


def job_of(environment: Mapping[str, str]) -> tuple[str, ...] | None:
    """Returns what identifies a job on this host; None if the variables describe no job.

    Args:
        environment: Variables with which a process was started.
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
    """Returns the addresses of the cluster in `TF_CONFIG`, without the process's own place in it.

    No other cluster has these addresses. Returns None if the text describes no cluster.
    """
    try:
        cluster = json.loads(text)["cluster"]
    except (ValueError, TypeError, KeyError):
        return None
    return json.dumps(cluster, sort_keys=True) if cluster else None


def _job_of_process(process: Any) -> tuple[str, ...] | None:
    import psutil

    # Environments of other users' processes are not readable, and a process may have ended
    # since it was listed.
    try:
        return job_of(process.environ())
    except (psutil.Error, OSError):
        return None
