"""What the stages of an input pipeline cost, and which of them is the bottleneck."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Work = Literal[
    "reading",
    "decoding",
    "mapping",
    "filtering",
    "batching",
    "shuffling",
    "caching",
    "python",
    "other",
]


@dataclass(frozen=True)
class StageRecord:
    """One stage of a tf.data pipeline, over the steps that were measured.

    Attributes:
        name: The stage's `name=` where it was given one, else its function's name, else its kind.
        kind: What it is: "map", "batch", "shuffle", "interleave", "generator" and the like.
        work: What its time goes to; "decoding" only where its function decodes or parses, "python"
            where it runs Python code.
        location: "file.py:12" of its function; None where it has none, or it is not known.
        cost_s: Its own time for each element it produces, that of its inputs left out.
        cost_per_batch_s: Its own time for each batch that leaves the pipeline.
        parallelism: How many of its elements are processed in parallel.
        buffered_before: Mean number of elements that wait in the buffer before it; None where it
            has none.
        buffered_after: Mean number of elements that wait in the buffer after it.
        share: Part of the slowest segment's time that is this stage's, 0 to 1. Stages outside that
            segment run alongside it and have 0.
    """

    name: str
    kind: str
    work: Work
    location: str | None = None
    cost_s: float | None = None
    cost_per_batch_s: float | None = None
    parallelism: int = 1
    buffered_before: float | None = None
    buffered_after: float | None = None
    share: float = 0.0

    @property
    def where(self) -> str:
        """What sentences add to its name: " (train.py:12)"; "" where its place is not known."""
        return f" ({self.location})" if self.location else ""


@dataclass(frozen=True)
class PipelineCosts:
    """What the stages of a pipeline cost for a while.

    Attributes:
        begin_s: When, since the run began.
        end_s: Until when.
        per_batch_s: Each stage's own time for a batch, in the order of `PipelineRecord.stages`.
    """

    begin_s: float
    end_s: float
    per_batch_s: tuple[float, ...]


@dataclass(frozen=True)
class PipelineRecord:
    """The stages of a pipeline, and the one that training waits for.

    Attributes:
        stages: From the one nearest to training back to the sources.
        bottleneck: The stage that limits the pipeline; None where training does not wait for it,
            or where it is unknown.
        balanced_because: Why there is no bottleneck, where that is known.
        unknown_because: Why neither a bottleneck nor its absence is known.
        batches: Batches that the costs are means of.
        slowest_s: Time that the slowest segment takes for a batch.
        source: What the figures were read from.
        costs: The stages' costs over time, in at most 32 parts; parts of the run may be missing.
    """

    stages: tuple[StageRecord, ...] = ()
    bottleneck: StageRecord | None = None
    balanced_because: str | None = None
    unknown_because: str | None = None
    batches: int = 0
    slowest_s: float | None = None
    source: str | None = None
    costs: tuple[PipelineCosts, ...] = ()


@dataclass(frozen=True)
class PythonSourceRecord:
    """The user's own Python code that makes batches: a `PyDataset`, or a generator.

    What a step waits beyond the code's own time is queueing: batches that are made one after the
    other, or handed from worker to worker.

    Attributes:
        name: Such as "Photographs.__getitem__".
        location: "file.py:12".
        workers: Threads or processes that Keras has for it.
        in_processes: Whether it runs in processes of its own.
        busy_workers: Threads inside it on average, from a look at their stacks each second; None
            where it runs in other processes, or the run was too short.
        time_per_batch_s: Time inside it for each batch: busy workers over batches a second.
    """

    name: str
    location: str | None = None
    workers: int = 1
    in_processes: bool = False
    busy_workers: float | None = None
    time_per_batch_s: float | None = None


@dataclass(frozen=True)
class ContentionRecord:
    """How much a run's threads were in each other's way.

    Attributes:
        gil_wait_s: Median time that a thread which wants to run Python code waits for the
            GIL.
        cores_busy_fraction: Processor time of this process over what its cores have, 0 to 1.
        input_cores_fraction: The part of it, while steps ran, of threads that were started since
            the run began, as tf.data and Keras start them to make batches.
    """

    gil_wait_s: float | None = None
    cores_busy_fraction: float | None = None
    input_cores_fraction: float | None = None
