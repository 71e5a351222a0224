"""Finds other processes that use the host's processors; looks only while they use much.

Processes of the same job as this one are recognized by their environments: the variables with which
each was started, as the system keeps them.
"""

from __future__ import annotations

import functools
import json
import os
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from keras_gpukit.records.machine import HostSample, ProcessUse

CLUSTER = "TF_CONFIG"
# Groups of variables. All variables of a group are equal in the processes of one start, and in no
# other processes on this host.
_STARTS = (
    ("SLURM_JOB_ID", "SLURM_STEP_ID"),
    ("PMIX_NAMESPACE",),
    ("OMPI_MCA_ess_base_jobid",),
)
MUCH_PERCENT = 25.0
"""Share of all cores that others must use, in percent; with less there is no reason to look."""
FIRST_LOOKS_APART_S = 2.0
FIRST_LOOK_AFTER_S = 0.5
"""Time before the first look. In a shorter run, the use by others cannot be measured."""
NAMED = 3
_KERNEL = 2, "kthreadd"


class _ProcessTimes(NamedTuple):
    """Processor time of each process, by PID and name, and when it was read, in seconds.

    `children_s` is that of all children of this process so far, also of those that ended.
    """

    spent_s: dict[tuple[int, str], float]
    at_s: float
    children_s: float


class OtherProcessesSensor:
    """Compares the processor times of all processes, from the first look to the latest.

    A look takes about ten milliseconds, so the time from each look to the next doubles.
    """

    def __init__(self, now: Callable[[], float] = time.perf_counter) -> None:
        import psutil

        self._now = now
        self._cores = psutil.cpu_count() or 1
        self._looks: tuple[_ProcessTimes, _ProcessTimes] | None = None  # the first and the latest
        self._children: set[int] = set()
        self._of_job: dict[tuple[int, str], bool] = {}  # of each process, looked up once
        self._due_s = now() + FIRST_LOOK_AFTER_S

    @functools.cached_property
    def _job(self) -> tuple[str, ...] | None:
        import psutil

        return _job_of_process(psutil.Process())

    def note(self, sample: HostSample) -> bool:
        """Looks at all processes if a reading shows that others use much; whether it did."""
        if sample.cpu_percent is None or sample.process_cpu_percent is None:
            return False
        if sample.cpu_percent - sample.process_cpu_percent < MUCH_PERCENT:
            return False
        if self._now() < self._due_s:
            return False
        self.poll()
        return True

    def end(self) -> None:
        """Looks a last time, if there was a first look."""
        if self._looks is not None:
            self.poll()

    def poll(self) -> None:
        """Reads the processor time of every process."""
        import psutil

        children = {child.pid for child in psutil.Process().children(recursive=True)}
        self._children |= children
        spent_s = self._read()
        alive_s = sum(seconds for (pid, _), seconds in spent_s.items() if pid in children)
        ended = os.times()
        children_s = alive_s + ended.children_user + ended.children_system
        latest = _ProcessTimes(spent_s, self._now(), children_s)
        first, _ = self._looks or (latest, latest)
        self._looks = first, latest
        self._due_s = latest.at_s + max(latest.at_s - first.at_s, FIRST_LOOKS_APART_S)

    def uses(self) -> tuple[ProcessUse, ...]:
        """Returns the unrelated processes that used most, from the first look to the latest.

        Processes of this process's job and its children do not count.
        """
        return (self._uses_of("other") or ())[:NAMED]

    def children_percent(self) -> float | None:
        """Returns the use by this process's children, in percent; None before the second look.

        Children that ended between two looks count as soon as they were waited for.
        """
        first, latest = self._looks or (None, None)
        if first is None or latest is None or latest.at_s <= first.at_s:
            return None
        used_s = max(latest.children_s - first.children_s, 0.0)
        return 100 * used_s / ((latest.at_s - first.at_s) * self._cores)

    def job_percent(self) -> float | None:
        """Returns the use by others of this job, in percent; None before the second look."""
        uses = self._uses_of("job")
        return None if uses is None else sum(use.cpu_percent for use in uses)

    def _uses_of(self, kind: str) -> tuple[ProcessUse, ...] | None:
        """Returns the processes of a kind that used most; None before the second look."""
        first, latest = self._looks or (None, None)
        if first is None or latest is None or latest.at_s <= first.at_s:
            return None
        passed_s = (latest.at_s - first.at_s) * self._cores
        uses = [
            ProcessUse(name, pid, 100 * (spent_s - first.spent_s.get((pid, name), 0.0)) / passed_s)
            for (pid, name), spent_s in latest.spent_s.items()
            if pid != os.getpid() and self._kind((pid, name)) == kind
        ]
        used = [use for use in uses if use.cpu_percent >= 1]
        return tuple(sorted(used, key=lambda use: -use.cpu_percent))

    def _kind(self, key: tuple[int, str]) -> str:
        if key[0] in self._children:
            return "child"
        return "job" if self._of_job.get(key, False) else "other"

    def _read(self) -> dict[tuple[int, str], float]:
        import psutil

        times = {}
        kernel_has_threads = False  # in a container, process 2 can be any process
        for process in psutil.process_iter(["pid", "name", "cpu_times", "ppid"]):
            # The kernel's own threads cannot be stopped; they are children of its process 2.
            if process.info["pid"] == _KERNEL[0] and process.info["name"] == _KERNEL[1]:
                kernel_has_threads = True
            if kernel_has_threads and process.info["ppid"] == _KERNEL[0]:
                continue
            spent = process.info["cpu_times"]
            if spent is not None:
                key = process.info["pid"], process.info["name"] or "unnamed"
                times[key] = spent.user + spent.system
                if self._job is not None and key not in self._of_job:
                    self._of_job[key] = _job_of_process(process) == self._job
        return times


def job_of(environment: Mapping[str, str]) -> tuple[str, ...] | None:
    """Returns what identifies a job on this host; None if the variables describe no job."""
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
