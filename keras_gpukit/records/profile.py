"""Contents of a profile of captured steps: one file, one host.

Times on a timeline are in seconds since the first step in the profile began. Earlier times are
negative.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

StepSource = Literal["marker", "train function"]
Part = Literal[
    "input wait",
    "device compute",
    "collectives",
    "host to device",
    "other copies",
    "kernel launch",
    "host compute",
    "between steps",
    "idle",
]
Kind = Literal[
    "collective",
    "convolution",
    "matmul",
    "attention",
    "normalization",
    "reduction",
    "elementwise",
    "data movement",
    "optimizer",
    "other",
]


@dataclass(frozen=True)
class StepProfile:
    """One step; with several steps per execution, one execution.

    Attributes:
        number: Number in the step's marker; None if the steps are not marked.
        begin_s: When it began, in seconds since the first step in the profile began.
        duration_s: Seconds until the next one began.
        parts_s: Seconds by part; see `ProfileRecord.parts_s`.
    """

    number: int | None
    begin_s: float
    duration_s: float
    parts_s: dict[Part, float]


@dataclass(frozen=True)
class DeviceProfile:
    """One GPU while the steps ran.

    Attributes:
        device: Name of the GPU, such as "GPU:0".
        busy_fraction: Share of the time in which a kernel or a copy ran, 0 to 1.
        compute_fraction: Share of the time in which a kernel other than a collective ran, 0 to 1.
        kernels: Number of kernels that ran.
        host_to_device_bytes: Bytes copied from the host to the GPU; None if the copies do not
            report their size.
        tensor_core_fraction: Share of the kernels' time in kernels whose names say that they use
            Tensor Cores, 0 to 1. Others may use them too, as the names of XLA's Triton kernels do
            not say. None if no kernel ran.
        compute_capability: CUDA compute capability, such as "9.0"; None if it was not recorded.
        collectives_s: Seconds in which the GPU exchanged data with other GPUs, or waited for them,
            and computed nothing, for each step of `ProfileRecord.each_step`.
    """

    device: str
    busy_fraction: float
    compute_fraction: float
    kernels: int
    host_to_device_bytes: int | None = None
    tensor_core_fraction: float | None = None
    compute_capability: str | None = None
    collectives_s: tuple[float, ...] = ()


@dataclass(frozen=True)
class OperationProfile:
    """A TensorFlow operation, with all of its runs summed up.

    Attributes:
        name: Name in the graph, or the type if the name was not recorded.
        type: Operation type, such as "MatMul".
        kind: Kind of computation; see `Kind`.
        time_s: Seconds in all steps, without other operations; on a GPU, time of its kernels.
        count: Number of runs; on a GPU, number of kernels.
        share: Share of the time of all operations, 0 to 1.
    """

    name: str
    type: str
    kind: Kind
    time_s: float
    count: int
    share: float


@dataclass(frozen=True)
class KernelProfile:
    """A GPU kernel, with all of its launches summed up.

    Attributes:
        name: Name of the compiled kernel.
        kind: Kind of computation, from its name; see `Kind`.
        time_s: Seconds in all steps, on all devices.
        count: Number of launches.
        share: Share of the time of all kernels, 0 to 1.
        tensor_core: Whether the kernel uses Tensor Cores, from its name; None if the name does not
            say.
        operation: TensorFlow operation that launched it most often; None if it was not recorded.
    """

    name: str
    kind: Kind
    time_s: float
    count: int
    share: float
    tensor_core: bool | None
    operation: str | None = None


@dataclass(frozen=True)
class MemoryPoint:
    """One reading of an allocator.

    Attributes:
        time_s: When it was read, in seconds since the first step began.
        used_bytes: Memory in use by tensors.
    """

    time_s: float
    used_bytes: int


@dataclass(frozen=True)
class Holding:
    """Memory that one operation held at an allocator's peak.

    Attributes:
        operation: Operation that requested the memory, as TensorFlow names it.
        bytes: Total size of its allocations.
        count: Number of its allocations.
        shape: Shape of the largest allocation, such as "[32,224,224,64]"; None if it was not
            recorded.
    """

    operation: str
    bytes: int
    count: int
    shape: str | None = None


@dataclass(frozen=True)
class MemoryProfile:
    """One allocator during the capture.

    Attributes:
        allocator: Name of the allocator, such as "GPU_0_bfc".
        timeline: At most a few hundred readings, including the highest and the lowest one of each
            period.
        peak_bytes: Peak of the memory in use during the capture.
        peak_time_s: When the peak was reached, in seconds since the first step began.
        total_bytes: Most memory that the allocator can provide; None if it does not report it.
        holdings: Memory that was allocated during the capture and held at the peak, the largest
            first.
        before_bytes: Rest of the peak: mostly memory that was allocated before the capture began,
            such as weights.
        fragmentation: Share of the free memory in the allocator's pool that is outside its largest
            free block at the peak, 0 to 1; None if the allocator does not report it.
    """

    allocator: str
    timeline: tuple[MemoryPoint, ...]
    peak_bytes: int
    peak_time_s: float
    total_bytes: int | None = None
    holdings: tuple[Holding, ...] = ()
    before_bytes: int | None = None
    fragmentation: float | None = None


@dataclass(frozen=True)
class StageProfile:
    """A stage of the tf.data pipeline.

    Attributes:
        name: The stage's `name=` if it was given one, else its tf.data method, such as "map".
            Further stages of the same method are numbered from training on: "map 2".
        kind: Class of the stage in tf.data, such as "ParallelMapV2".
        blocked_s: Seconds of a step's wait in which the stage itself was at work.
        share: Share of the whole wait, 0 to 1. Stages that work in parallel may add up to more than
            1.
        own_s: Seconds per step in which the stage was at work, without its inputs, whether or not
            training waited.
        is_named: Whether it was given its name by `name=`.
    """

    name: str
    kind: str
    blocked_s: float
    share: float
    own_s: float
    is_named: bool = False


@dataclass(frozen=True)
class ProfileRecord:
    """Contents of a profile. Without steps, the figures of steps are None or empty.

    Attributes:
        host: Name of the machine in the file.
        fingerprint: Hash of the file's content. A copy under another name has the same one.
        captured_s: When the capture began, in seconds since the Unix epoch.
        capture_s: Duration of the capture, in seconds.
        steps: Number of complete steps. Of more than two executions, the first is not counted,
            since the profiler was still starting. The last is not counted either, since its end is
            not in the profile.
        steps_per_execution: Number of steps that the host starts together.
        steps_from: How the steps were found: "marker", by the markers that profiling code set;
            "train function", by Keras' own function.
        steps_unknown_because: Why there are no steps; None if there are.
        span_s: Seconds from the start of the first step to the end of the last one, without pauses
            between epochs.
        step_time_s: Mean step time.
        parts_s: Mean step time by part, in seconds; the parts add up to `step_time_s`. A moment
            belongs to the first part that fits. "device compute": a kernel ran. "collectives": a
            kernel exchanged data among GPUs; without a GPU, an operation exchanged data with other
            workers, or waited for them, and no other ran. "other copies": a copy ran that is not
            from the host. "input wait": the host waited for the next batch. "host to device": a
            copy from the host ran. "kernel launch": on a GPU, TensorFlow ran the step's function,
            which launches kernels. "host compute": an operation ran on the host or waited for a
            GPU; without a GPU, between a step's first operation and its last. "between steps":
            between two steps' functions. "idle": none of these, which is Python code around the
            operations.
        kinds_s: Mean seconds per step of "device compute" (without a GPU: "host compute") by kind
            of computation. They add up to that part. If two kinds run at the same time, the first
            in the order of `Kind` counts.
        each_step: One entry per execution; at most the first 50.
        stall_fraction: Share of the steps' time in which the run waited for input and computed
            nothing, 0 to 1.
        stall_unknown_because: Why `stall_fraction` is None; None if it is not.
        devices: One entry per GPU; empty without any.
        operations: Longest operations, of the GPUs if there are any, else of the host.
        kernels: Longest kernels.
        memory: One entry per allocator that was recorded.
        stages: Stages of the tf.data pipeline, the most blocking first; empty if nothing waits or
            the pipeline was not recorded.
        problems: Problems that the profiler itself reported, in words.
        incomplete_because: Why a part of the file was not read; None if all of it was.
    """

    host: str | None = None
    fingerprint: str | None = None
    captured_s: float | None = None
    capture_s: float | None = None
    steps: int = 0
    steps_per_execution: int = 1
    steps_from: StepSource | None = None
    steps_unknown_because: str | None = None
    span_s: float | None = None
    step_time_s: float | None = None
    parts_s: dict[Part, float] = field(default_factory=dict)
    kinds_s: dict[Kind, float] = field(default_factory=dict)
    each_step: tuple[StepProfile, ...] = ()
    stall_fraction: float | None = None
    stall_unknown_because: str | None = None
    devices: tuple[DeviceProfile, ...] = ()
    operations: tuple[OperationProfile, ...] = ()
    kernels: tuple[KernelProfile, ...] = ()
    memory: tuple[MemoryProfile, ...] = ()
    stages: tuple[StageProfile, ...] = ()
    problems: tuple[str, ...] = ()
    incomplete_because: str | None = None
