"""Everything that is known of one run."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from keras_gpukit.records.capture import ProfilerRecord
from keras_gpukit.records.displayed import Displayed
from keras_gpukit.records.environment import Environment, Worker
from keras_gpukit.records.finding import Finding, Verdict
from keras_gpukit.records.host_buffers import HostBuffers
from keras_gpukit.records.machine import (
    DeviceMemory,
    GPUUtilization,
    HostSample,
    HostUtilization,
    MemoryRecord,
    UtilizationRecord,
)
from keras_gpukit.records.memory import OutOfMemory
from keras_gpukit.records.pipeline import ContentionRecord, PipelineRecord
from keras_gpukit.records.placement import PlacementRecord
from keras_gpukit.records.shift import Series
from keras_gpukit.records.steps import InputRecord, ThroughputRecord, TimeBreakdown
from keras_gpukit.records.worker_comparison import WorkerComparison

Ending = Literal["completed", "interrupted"]


@dataclass(frozen=True)
class ProcessIdentity:
    """A process, such that no other one is taken for it.

    Attributes:
        pid: Its number.
        started: When it started, in ticks of the clock since its system did.
        place: Within which the number is its own: host, boot id and namespace of process numbers.
    """

    pid: int
    started: int
    place: str


@dataclass(frozen=True)
class RunHeader:
    """The first line of a run's record.

    Attributes:
        schema: Version of the records' layout.
        time_s: When the run began, in seconds since the Unix epoch.
        worker: Which process of a cluster wrote it; None outside one.
        process: The process that wrote it; None where the system does not tell, as outside Linux.
    """

    schema: int
    time_s: float | None = None
    worker: Worker | None = None
    process: ProcessIdentity | None = None


@dataclass(frozen=True)
class RunSummary(Displayed):
    """One run of `fit`, `evaluate` or `predict`, as watched.

    What was not watched or could not be read is None.

    Attributes:
        environment: Versions, devices and execution settings.
        throughput: Step times and rates.
        input: Wait for the next batch.
        memory: TensorFlow's allocators.
        operations: Where operations ran, and why.
        utilization: GPUs and host.
        captures: Profiles that were captured on demand; those of a `Profiler` are in its summary.
        validation: Rates of the validation inside `fit`.
        validation_input: Input wait of the validation inside `fit`.
        overhead_s: What keras_gpukit itself cost, a step: time on the training thread and
            processor time alongside it.
        startup_s: What it cost once, to begin, to read the first step's placement, and to end.
        ending: "completed", or "interrupted" by an exception or an interrupt; None where that is
            unknown: the run goes on, or its process was killed.
        ended_by: The exception that ended it, by its type, and where: "ValueError in step 1"; None
            where none was seen.
        series: The figures over time, in a few points each.
        workers: The workers of a cluster next to each other, or the GPUs of one process: in the
            summary of the first worker, as far as it can read what the others wrote.
        out_of_memory: Why memory ran out, where that ended the run.
        host_buffers: What caches and shuffle buffers of the input hold, and will hold.
        host_at_end: The last reading of the host, of a run that ended without a word.
        verdict: What the rules conclude.
    """

    environment: Environment
    throughput: ThroughputRecord | None = None
    input: InputRecord | None = None
    memory: MemoryRecord | None = None
    operations: PlacementRecord | None = None
    utilization: UtilizationRecord | None = None
    captures: ProfilerRecord | None = None
    validation: ThroughputRecord | None = None
    validation_input: InputRecord | None = None
    overhead_s: float | None = None
    startup_s: float | None = None
    ending: Ending | None = None
    ended_by: str | None = None
    series: tuple[Series, ...] = ()
    workers: WorkerComparison | None = None
    out_of_memory: OutOfMemory | None = None
    host_buffers: HostBuffers | None = None
    host_at_end: HostSample | None = None
    verdict: Verdict = field(default_factory=Verdict)

    @property
    def steps(self) -> int | None:
        """Steps that ran."""
        return self.throughput.steps if self.throughput else None

    @property
    def step_time_s(self) -> float | None:
        """Mean step time."""
        return self.throughput.step_time_s if self.throughput else None

    @property
    def examples_per_s(self) -> float | None:
        """Mean rate."""
        return self.throughput.examples_per_s if self.throughput else None

    @property
    def input_wait_s(self) -> float | None:
        """Mean time a step was blocked on its next batch."""
        return self.input.wait_s if self.input else None

    @property
    def input_stall_fraction(self) -> float | None:
        """Wait over step time, 0 to 1."""
        return self.input.stall_fraction if self.input else None

    @property
    def breakdown(self) -> TimeBreakdown | None:
        """Where the wall time went."""
        return self.input.breakdown if self.input else None

    @property
    def pipeline(self) -> PipelineRecord | None:
        """The stages of the input pipeline."""
        return self.input.pipeline if self.input else None

    @property
    def contention(self) -> ContentionRecord | None:
        """How much threads were in each other's way."""
        return self.input.contention if self.input else None

    @property
    def allocators(self) -> tuple[DeviceMemory, ...]:
        """TensorFlow's allocators; empty where none was read."""
        return self.memory.devices if self.memory else ()

    @property
    def gpus(self) -> tuple[GPUUtilization, ...]:
        """Readings of the GPUs; empty where there are none."""
        return self.utilization.gpus if self.utilization else ()

    @property
    def host(self) -> HostUtilization | None:
        """Readings of the host."""
        return self.utilization.host if self.utilization else None

    @property
    def memory_peak_bytes(self) -> dict[str, int]:
        """Peak allocation by device, such as {"GPU:0": 1073741824}."""
        return {memory.device: memory.peak_bytes for memory in self.allocators}

    @property
    def placement(self) -> dict[str, int]:
        """Number of the training step's operations by device, such as {"GPU:0": 190}."""
        return self.operations.by_device if self.operations else {}

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What the rules found, worst first."""
        return self.verdict.findings
