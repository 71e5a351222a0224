"""Record of one run, with everything that is known about it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from keras_gpukit.records import Displayed
from keras_gpukit.records.cluster import WorkerComparison
from keras_gpukit.records.environment import Environment, Worker
from keras_gpukit.records.event import Hang, Learning, Series
from keras_gpukit.records.finding import Finding, Verdict
from keras_gpukit.records.machine import (
    DeviceMemory,
    GPUUtilization,
    HostSample,
    HostUtilization,
    MemoryRecord,
    UtilizationRecord,
)
from keras_gpukit.records.memory import OutOfMemory
from keras_gpukit.records.pipeline import ContentionRecord, HostBuffers, PipelineRecord
from keras_gpukit.records.placement import PlacementRecord
from keras_gpukit.records.profile import ProfileRecord, ProfilerRecord
from keras_gpukit.records.script import ScriptRecord, StackTimes
from keras_gpukit.records.steps import InputRecord, Phase, Progress, ThroughputRecord, TimeBreakdown

Ending = Literal["completed", "interrupted"]
EndedKind = Literal["stopped", "signal", "input", "error"]
"""Kinds of what interrupts a run: the user, by Ctrl-C or an exit; a signal, as of a scheduler; an
exception of the input pipeline; another exception."""


@dataclass(frozen=True)
class Ceilings:
    """Highest rates that plain products and copies reached on a device.

    Attributes:
        tflops: TFLOP/s of square matrix products, by precision: "float32", "TF32", "bfloat16" …
        device_gb_per_s: GB/s with which arrays in the device's memory were read and written.
        to_device_gb_per_s: GB/s of copies from the host's memory; None on a CPU.
    """

    tflops: dict[str, float]
    device_gb_per_s: float
    to_device_gb_per_s: float | None = None


@dataclass(frozen=True)
class StepFlops:
    """Operations of one training step of all replicas, counted from its graph.

    A multiplication and an addition are two operations.

    Attributes:
        by_dtype: Operations of products, convolutions and cuDNN's recurrent layers, by the dtype of
            their results.
        moved_bytes: Bytes that the step's operations read and write if each reads its inputs once
            and writes its outputs once. XLA fuses operations, which then move less. Tensors of
            unknown size are left out.
        uncounted: Types of operations whose arithmetic is not in `by_dtype`.
        ceilings: Rates that `keras-gpukit bench` measured on this GPU; None if it has not.
    """

    by_dtype: dict[str, int] = field(default_factory=dict)
    moved_bytes: int | None = None
    uncounted: tuple[str, ...] = ()
    unknown_because: str | None = None
    ceilings: Ceilings | None = None

    @property
    def total(self) -> int | None:
        """Operations of a step; None if they are not all known."""
        return sum(self.by_dtype.values()) if self.unknown_because is None else None


@dataclass(frozen=True)
class ProcessIdentity:
    """Identity of a process that no other process shares.

    Attributes:
        started: When the process started, in clock ticks since the system's boot.
        place: Scope in which the process ID is unique: host name, boot ID and PID namespace.
    """

    pid: int
    started: int
    place: str


@dataclass(frozen=True)
class RunHeader:
    """The first line of a run's record.

    Attributes:
        process: Process that wrote the record; None if the system does not identify it, as outside
            Linux.
    """

    schema: int
    time_s: float | None = None
    worker: Worker | None = None
    process: ProcessIdentity | None = None
    phase: Phase | None = None


@dataclass(frozen=True)
class Overhead:
    """Overhead of keras_gpukit: time on the training thread, and processor time alongside it.

    Attributes:
        step_s: Seconds per step since the previous such record; None at the end of the run.
        steps: Number of these steps.
    """

    step_s: float | None
    steps: int
    total_s: float
    startup_s: float


@dataclass(frozen=True)
class RunEnd:
    """How a run ended; the fields of `RunSummary` with the same names say more."""

    ending: Ending | None = None
    ended_by: str | None = None
    error_message: str | None = None
    error_line: str | None = None
    ended_kind: EndedKind | None = None


@dataclass(frozen=True)
class RunSummary(Displayed):
    """Summary of one monitored run of `fit`, `evaluate` or `predict`.

    Fields that were not monitored or could not be read are None.

    Attributes:
        flops: Floating-point operations of a step; None without a GPU.
        captures: Profiles that `Monitor` captured on demand or by itself. Those of a separate
            `Profiler` are in its own summary.
        profile: Contents of the profile that it captured by itself once steps were steady; None
            without one, or if it was not read.
        overhead_s: Overhead of keras_gpukit, in seconds per step: readings and callbacks on the
            training thread, and the processor time of its other threads.
        startup_s: One-time overhead of keras_gpukit: starting, reading the first step's placement,
            and ending.
        ending: "completed", or "interrupted" by an exception or an interrupt; None if unknown,
            because the run still goes on or its process was killed.
        ended_by: Type of the exception that ended the run, and where it was raised, such as
            "ValueError in step 1", or "SIGTERM after step 120"; None if none was seen.
        ended_kind: Kind of what `ended_by` names; None if none was seen.
        killed_in: Latest progress of a run whose process ended without recording the end.
        series: Time series of the figures, with a few points each.
        workers: Comparison of the workers of a cluster, or of the GPUs of one process. For a
            cluster, it is in the summary of the first worker, as far as that one can read the
            others' records.
        first_step_s: Time since the first step began, if it had not ended when the record was
            written.
        script: Where the time of the whole script went; None but for the verdict that `keras-gpukit
            run` gives on it when it has ended.
        stacks: Lines of Python that the call spent its time on, and callbacks and data within it.
        hangs: Times without a step that were much longer than usual, the first 20.
    """

    environment: Environment
    throughput: ThroughputRecord | None = None
    input: InputRecord | None = None
    memory: MemoryRecord | None = None
    operations: PlacementRecord | None = None
    flops: StepFlops | None = None
    utilization: UtilizationRecord | None = None
    captures: ProfilerRecord | None = None
    profile: ProfileRecord | None = None
    validation: ThroughputRecord | None = None
    validation_input: InputRecord | None = None
    overhead_s: float | None = None
    startup_s: float | None = None
    ending: Ending | None = None
    ended_by: str | None = None
    error_message: str | None = None
    error_line: str | None = None
    ended_kind: EndedKind | None = None
    killed_in: Progress | None = None
    series: tuple[Series, ...] = ()
    workers: WorkerComparison | None = None
    out_of_memory: OutOfMemory | None = None
    learning: Learning | None = None
    host_buffers: HostBuffers | None = None
    host_at_end: HostSample | None = None
    first_step_s: float | None = None
    script: ScriptRecord | None = None
    stacks: StackTimes | None = None
    hangs: tuple[Hang, ...] | None = None
    verdict: Verdict = field(default_factory=Verdict)

    @property
    def steps(self) -> int | None:
        """Number of steps that ran."""
        return self.throughput.steps if self.throughput else None

    @property
    def step_time_s(self) -> float | None:
        """Mean step time, in seconds."""
        return self.throughput.step_time_s if self.throughput else None

    @property
    def examples_per_s(self) -> float | None:
        """Mean number of examples per second."""
        return self.throughput.examples_per_s if self.throughput else None

    @property
    def input_wait_s(self) -> float | None:
        """Mean time that a step was blocked on its next batch, in seconds."""
        return self.input.wait_s if self.input else None

    @property
    def input_stall_fraction(self) -> float | None:
        """Input wait as a share of the step time, 0 to 1."""
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
        """How much the threads of the run slowed each other down."""
        return self.input.contention if self.input else None

    @property
    def allocators(self) -> tuple[DeviceMemory, ...]:
        """Memory of TensorFlow's allocators; empty if none was read."""
        return self.memory.devices if self.memory else ()

    @property
    def gpus(self) -> tuple[GPUUtilization, ...]:
        """Readings of the GPUs; empty without any."""
        return self.utilization.gpus if self.utilization else ()

    @property
    def host(self) -> HostUtilization | None:
        """Readings of the host."""
        return self.utilization.host if self.utilization else None

    @property
    def page_faults_per_step(self) -> float | None:
        """Mean number of page faults of this process in a step."""
        per_s = self.host.page_faults_per_s if self.host else None
        return None if per_s is None or self.step_time_s is None else per_s * self.step_time_s

    @property
    def memory_peak_bytes(self) -> dict[str, int]:
        """Peak that training needs by device, such as {"GPU:0": 1073741824}."""
        return {memory.device: memory.needed_bytes for memory in self.allocators}

    @property
    def placement(self) -> dict[str, int]:
        """Number of the training step's operations by device, such as {"GPU:0": 190}."""
        return self.operations.by_device if self.operations else {}

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Findings of the rules, the worst first."""
        return self.verdict.findings
