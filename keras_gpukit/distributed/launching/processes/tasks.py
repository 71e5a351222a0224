"""The tasks of a job, and the environment that makes a process one of them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from keras_gpukit.distributed.launching.job import Job

CLUSTER = "TF_CONFIG"


@dataclass(frozen=True)
class Task:
    """One process of a job.

    Attributes:
        type: Type of the task, as in `TF_CONFIG`: "chief", "worker" or "ps".
        index: Index among the tasks of its type, from 0.
        runs_script: Whether it runs the script. Otherwise it is a server that gets work from the
            chief.
        is_chief: Whether it is the task whose progress is shown.
    """

    type: str
    index: int
    runs_script: bool = True
    is_chief: bool = False

    @property
    def name(self) -> str:
        """Name of the task, such as "worker 1" or "chief"."""
        return self.type if self.type == "chief" else f"{self.type} {self.index}"

    @property
    def has_server(self) -> bool:
        """Whether other tasks wait until it listens on its port; a coordinator only connects."""
        return self.type != "chief"

    @property
    def can_be_replaced(self) -> bool:
        """Whether it can be restarted if it dies: a worker that is a server has no state."""
        return self.type == "worker" and not self.runs_script


def tasks_of(job: Job) -> tuple[Task, ...]:
    """Returns the tasks of a job, the chief first.

    Without parameter servers, the first worker is the chief. With them, a separate chief
    coordinates. Workers and parameter servers are then TensorFlow servers that run no script.
    """
    if not job.parameter_servers:
        return tuple(Task("worker", i, is_chief=i == 0) for i in range(job.workers))
    return (
        Task("chief", 0, is_chief=True),
        *(Task("worker", i, runs_script=False) for i in range(job.workers)),
        *(Task("ps", i, runs_script=False) for i in range(job.parameter_servers)),
    )


def cluster_variables(tasks: Sequence[Task], addresses: Sequence[str]) -> list[dict[str, str]]:
    """Returns the environment variables that describe the cluster to each task.

    Args:
        tasks: Tasks of the job.
        addresses: The "host:port" of each task.
    """
    cluster: dict[str, list[str]] = {}
    for task, address in zip(tasks, addresses, strict=True):
        cluster.setdefault(task.type, []).append(address)
    fault_tolerance = {}
    if "ps" in cluster:
        # Calls to a server that has died fail immediately, so the coordinator gives the work to
        # another one: tensorflow.org/tutorials/distribute/parameter_server_training
        fault_tolerance = {"GRPC_FAIL_FAST": "use_caller"}
    return [
        {
            CLUSTER: json.dumps(
                {"cluster": cluster, "task": {"type": task.type, "index": task.index}}
            ),
            **fault_tolerance,
        }
        for task in tasks
    ]
