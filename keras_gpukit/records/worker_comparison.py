"""What the workers of a synchronous run did at the same steps, next to each other.

Every worker takes as long for a step as the slowest one, since all of them meet at the step's
collectives. What differs is how long each waits there: the one that arrives last waits least.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from keras_gpukit.records.environment import Worker

MemberKind = Literal["worker", "replica"]


@dataclass(frozen=True)
class ComparedStep:
    """Where one worker's time went in one step; of several in one execution, the mean of them.

    Attributes:
        step: Global step.
        duration_s: Until the next step began.
        input_s: Waiting for the next batch; None where it is known for the whole run only.
        collective_s: At collectives while nothing was computed: waiting for other workers, and
            exchanging data with them.
    """

    step: int
    duration_s: float
    input_s: float | None
    collective_s: float

    @property
    def busy_s(self) -> float:
        """All but the collectives: how long the worker took to arrive at them."""
        return max(self.duration_s - self.collective_s, 0.0)


@dataclass(frozen=True)
class RoundTrip:
    """How long a short message to another worker and its answer took.

    Attributes:
        peer: The other worker's index.
        lowest_s: The shortest: what the network takes while the machines are idle.
        median_s: The median.
        readings: How many.
    """

    peer: int
    lowest_s: float
    median_s: float
    readings: int


@dataclass(frozen=True)
class WorkerFigures:
    """One worker of a cluster, or one replica of a process. Unknown figures are None.

    Attributes:
        index: Its number among those that train, from 0, the chief first.
        steps: Steps that ran.
        step_time_s: Mean step time.
        input_wait_s: Mean wait of a step for its batch.
        examples: Examples it trained on.
        gpu_percent: Mean utilization of its GPUs.
        cpu_percent: Mean use of all cores of its machine by its process.
        compared: Some of its steps, in order, with their time in collectives.
        compared_unknown_because: Why there are none.
        round_trips: To other workers; of some of them only, where there are many.
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
    """The members of a synchronous run, next to each other.

    Attributes:
        members: By index.
        expected: How many train together.
        kind: "worker", a process of a cluster; or "replica", a GPU of one process.
        unknown_because: Why some or all of them are missing, in words.
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
