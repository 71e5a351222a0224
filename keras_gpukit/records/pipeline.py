"""The stages of an input pipeline: what they cost, which one limits it, and what they hold."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Work = Literal[
    "reading",
    "decoding",
    "parsing",
    "mapping",
    "filtering",
    "batching",
    "shuffling",
    "caching",
    "python",
    "other",
]

ARRAYS = "Keras' own "
"""Prefix of the names of stages that Keras creates for arrays."""
InputLibrary = Literal["Keras", "torch", "Grain", "Grain DataLoader"]
"""Library that runs the user's Python code to make batches; "Keras" also stands for plain
generators."""


@dataclass(frozen=True)
class CallLine:
    """A line of user code that adds a stage to a pipeline.

    Attributes:
        text: The line; "" if the call is longer than a line, or was not found in its file.
        end: Number of characters up to the end of the call: 16 in "ds = ds.map(load).batch(8)".
        location: Place of the line, such as "train.py:20"; that of the function is another one.
    """

    text: str
    end: int
    location: str | None = None


@dataclass(frozen=True)
class StageRecord:
    """One stage of a tf.data pipeline, or of a Grain dataset in it, over the measured steps.

    Attributes:
        name: The stage's `name=` if it was given one, else its function's name, else its kind.
        kind: Kind of the stage: "map", "batch", "shuffle", "interleave", "generator" and the like;
            in a Grain dataset "MapDataset.map", "IterDataset.batch" and the like.
        work: Kind of work that takes its time; "decoding" or "parsing" only if its function does
            so, "python" if it runs Python code.
        cost_s: Seconds per element that it produces, without the time of its inputs.
        cost_per_batch_s: Seconds per batch that leaves the pipeline, without the time of its
            inputs.
        share: Share of the slowest segment's time that this stage takes. Stages outside that
            segment run alongside it and have 0.
        repeats: Whether it makes the same elements in each epoch, in whatever order, as far as its
            graph shows.
        pass_bytes: Size of the elements that it makes in an epoch, up to the last reading.
        asked_parallelism: Number of parallel calls that it is set to, if tf.data's thread pool
            allows less.
        elements: Number of elements that it makes per batch that leaves the pipeline.
        used: Share of its elements that no later stage drops, 0 to 1; None if unknown.
        refill_share: Share of the slowest segment's time that the stages before a cache take, if
            it is filled again in a later epoch; None for other stages.
        joined: Number of datasets that a chain of `concatenate` calls joins; None for other stages,
            or if it is unknown.
    """

    name: str
    kind: str
    work: Work
    location: str | None = None
    cost_s: float | None = None
    cost_per_batch_s: float | None = None
    parallelism: int = 1
    buffered_after: float | None = None
    share: float = 0.0
    files: int | None = None
    repeats: bool | None = None
    pass_bytes: int | None = None
    asked_parallelism: int | None = None
    call: CallLine | None = None
    elements: float | None = None
    used: float | None = None
    refill_share: float | None = None
    joined: int | None = None

    @property
    def line(self) -> str | None:
        """Place of the line to edit: the one that adds the stage, else the function's own."""
        return (self.call and self.call.location) or self.location

    @property
    def where(self) -> str:
        """The line to edit as messages append it to the name: " (train.py:20)".

        It is "" if it is unknown, or if the name has it: "lambda at train.py:12".
        """
        return f" ({self.line})" if self.line and self.line not in self.name else ""

    @property
    def defined(self) -> str:
        """Where its function is defined, in words; "" if `where` or the name has that."""
        if self.location is None or self.location == self.line or self.location in self.name:
            return ""
        return f"{self.name} is defined at {self.location}"


@dataclass(frozen=True)
class PipelineCosts:
    """Costs of the stages of a pipeline over a part of the run.

    Attributes:
        per_batch_s: Seconds per batch of each stage, without its inputs, in the order of
            `PipelineRecord.stages`.
    """

    begin_s: float
    end_s: float
    per_batch_s: tuple[float, ...]


@dataclass(frozen=True)
class PipelineRecord:
    """The stages of a pipeline, and the one that training waits for.

    Attributes:
        stages: Stages from the one nearest to training back to the sources.
        bottleneck: Stage that limits the pipeline; None if training does not wait for it or the
            bottleneck is unknown.
        balanced_because: Why there is no bottleneck, if that is known.
        costs: Costs of the stages over time, in at most 32 parts. Parts of the run may be missing.
        starts: Stages that work until an epoch's first batches arrive, with their costs and
            elements per start, and the share of the slowest segment of these. Of later epochs than
            the first, unless nothing of those is known. Stages that have read all their data by
            then are only seen here.
        written: Names of the stages as the script has them, in the order of `stages`, also of those
            that no batch came from, such as those behind a full cache; None if unknown.
    """

    stages: tuple[StageRecord, ...] = ()
    bottleneck: StageRecord | None = None
    balanced_because: str | None = None
    unknown_because: str | None = None
    slowest_s: float | None = None
    costs: tuple[PipelineCosts, ...] = ()
    starts: tuple[StageRecord, ...] = ()
    written: tuple[str, ...] | None = None


@dataclass(frozen=True)
class PythonSourceRecord:
    """The user's own Python code that makes batches.

    That of a `PyDataset`, a generator, a Grain dataset or a PyTorch `DataLoader`.

    If a step waits longer than the code's own time, the rest is queueing: batches are made one
    after the other, or handed from worker to worker.

    Attributes:
        name: Name of the function, such as "Photographs.__getitem__"; of several that make the
            batches, the one that most samples found.
        busy_workers: Mean number of threads inside the code, from samples of their stacks and, if
            Keras runs it in a pool of threads, at least their processor time per second. None if it
            runs in other processes, the run was too short, or no sample found a thread inside.
        time_per_batch_s: Seconds inside the code per batch: busy workers divided by batches per
            second; None if either is unknown. Grain times its own stages, which the pipeline has.
    """

    name: str
    location: str | None = None
    workers: int = 1
    in_processes: bool = False
    busy_workers: float | None = None
    time_per_batch_s: float | None = None
    library: InputLibrary = "Keras"
    restarts_workers: bool = False

    @property
    def where(self) -> str:
        """Location as messages append it to the name: " (train.py:12)"; "" if unknown."""
        return f" ({self.location})" if self.location else ""


@dataclass(frozen=True)
class ContentionRecord:
    """How much the threads of a run slowed each other down.

    Attributes:
        gil_wait_s: Mean time that a thread waits for the GIL before it can run Python code.
        cores_busy_fraction: Processor time of this process as a share of what its cores provide,
            without the time that a virtual machine's host gave to other guests.
        input_cores_fraction: Share of what the cores provide that was used by threads started since
            the run began; only time in steps counts. tf.data and Keras start such threads to make
            batches.
        input_queued_ratio: Time in which these threads waited for a core, over their processor
            time; None where the system does not count it.
    """

    gil_wait_s: float | None = None
    cores_busy_fraction: float | None = None
    input_cores_fraction: float | None = None
    input_queued_ratio: float | None = None


BufferKind = Literal["cache", "shuffle"]


@dataclass(frozen=True)
class HostBuffer:
    """A pipeline stage that keeps elements in host memory.

    Attributes:
        name: Name of the stage, such as "cache()", "cache() after decode" or "shuffle(10,000)".
        place: Position among the pipeline's stages of its kind, from 0, counted from training back
            to the sources.
        element_bytes: Bytes per element, including TensorFlow's overhead per tensor.
        ahead: Elements that pass the stage before the first step, to fill the shuffle buffers after
            it.
    """

    name: str
    kind: BufferKind
    place: int = 0
    elements: int | None = None
    element_bytes: float | None = None
    per_step: float | None = None
    ahead: int = 0
    unknown_because: str | None = None

    @property
    def full_bytes(self) -> float | None:
        """Bytes that the stage holds when full; None if unknown."""
        if self.elements is None or self.element_bytes is None:
            return None
        return self.elements * self.element_bytes

    def held_bytes(self, steps: int) -> float | None:
        """Returns the bytes that the stage holds after a number of steps; None if unknown.

        A shuffle buffer is full before the first one ends.
        """
        full_bytes = self.full_bytes
        if full_bytes is None or self.element_bytes is None:
            return None
        if steps == 0 or self.kind == "shuffle":
            return full_bytes if steps else 0.0
        if self.per_step is None:
            return None
        return min(full_bytes, (steps * self.per_step + self.ahead) * self.element_bytes)


@dataclass(frozen=True)
class HostBuffers:
    """All caches and shuffle buffers of a pipeline, and the host memory that is left."""

    buffers: tuple[HostBuffer, ...] = ()
    steps: int = 0
    epoch_steps: int | None = None
    left_bytes: int | None = None
    unknown_because: str | None = None

    @property
    def missing_bytes(self) -> float | None:
        """Bytes that the buffers will still take; None if unknown for one of them."""
        total = 0.0
        for buffer in self.buffers:
            full_bytes, held_bytes = buffer.full_bytes, buffer.held_bytes(self.steps)
            if full_bytes is None or held_bytes is None:
                return None
            total += full_bytes - held_bytes
        return total
