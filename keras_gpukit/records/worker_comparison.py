"""Comparison of the workers of a synchronous run at the same steps.

Every worker takes as long for a step as the slowest one, since all of them meet at the step's
collectives. They differ in how long they wait there: the worker that arrives last waits least.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from keras_gpukit.records.environment import Worker

MemberKind = Literal["worker", "replica"]


@dataclass(frozen=True)
class ComparedStep:
    """Time of one worker in one step.

    With several steps per execution, each figure is the mean of an execution's steps.

    Attributes:
        step: Global step. For GPUs of one process: position of the step in the profile, from 0.
        input_s: Seconds that the step waited for its batch; None if the wait is known for the whole
            run only.
        collective_s: Seconds at collectives while nothing was computed: waiting for other workers,
            and exchanging data with them.
    """

    step: int
    duration_s: float
    input_s: float | None
    collective_s: float

    @property
    def busy_s(self) -> float:
        """Seconds without the collectives: how long the worker took to arrive at them."""
        return max(self.duration_s - self.collective_s, 0.0)


@dataclass(frozen=True)
class RoundTrip:
    """Time that a short message to another worker and its answer took.

    Attributes:
        lowest_s: Shortest round trip, in seconds: the time that the network takes while the
            machines are idle.
        median_s: Median round trip, in seconds.
    """

    peer: int
    lowest_s: float
    median_s: float
    readings: int


@dataclass(frozen=True)
class WorkerFigures:
    """One worker of a cluster, or one replica of a process. Unknown figures are None.

    Attributes:
        index: Index among the workers that train, from 0, the chief first; for replicas, index of
            the GPU.
        examples: Number of examples that it trained on.
        gpu_percent: Mean utilization of its GPUs, 0 to 100.
        cpu_percent: Mean share of all cores of its machine that its process used, 0 to 100.
        compared: Some of its steps in order, with their time at collectives.
        round_trips: Round trips to other workers, or only to some of them if there are many.
    """

    index: int
    steps: int | None = None
    step_time_s: float | None = None
    input_wait_s: float | None = None
    examples: int | None = None
    gpu_percent: float | None = None
    cpu_percent: float | None = None
    compared: tuple[ComparedStep, ...] = ()
    compared_unknown_because: str | None = None
    round_trips: tuple[RoundTrip, ...] = ()


@dataclass(frozen=True)
class WorkerComparison:
    """Comparison of the members of a synchronous run.

    Attributes:
        expected: Number of members that train together.
        kind: "worker" for processes of a cluster; "replica" for GPUs of one process.
        unknown_because: Why some or all members are missing, in words; None if none is.
    """

    members: tuple[WorkerFigures, ...] = ()
    expected: int | None = None
    kind: MemberKind = "worker"
    unknown_because: str | None = None

    @property
    def is_complete(self) -> bool:
        """Whether there are several members, and all of them are known."""
        return len(self.members) > 1 and len(self.members) == (self.expected or 0)


def trains_with_others(worker: Worker | None) -> bool:
    """Whether a process is one of several that train together in step."""
    return worker is not None and worker.index is not None and (worker.count or 1) > 1
