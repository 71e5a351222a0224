"""What a profile says of the steps that were captured: one file, one host.

Times on a line of time are in seconds since the first step in the profile began; what happened
before has negative ones.
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
    """One step; of several steps in one execution, the execution.

    Attributes:
        number: What its marker says; None where the steps are not marked.
        begin_s: When it began.
        duration_s: Until the next one began.
        parts_s: Where that time went; see `ProfileRecord.parts_s`.
    """

    number: int | None
    begin_s: float
    duration_s: float
    parts_s: dict[Part, float]


@dataclass(frozen=True)
class DeviceProfile:
    """One GPU while the steps ran.

    Attributes:
        device: "GPU:0".
        busy_fraction: Share of the time in which a kernel or a copy ran, 0 to 1.
        compute_fraction: Share of the time in which a kernel ran that is no collective.
        kernels: Kernels that ran.
        host_to_device_bytes: Copied to it; None where the copies do not say.
        tensor_core_fraction: Share of the kernels' time spent in kernels whose names say that they
            use Tensor Cores. Others may use them too: XLA's Triton kernels do not say. None where
            no kernel ran.
        compute_capability: Such as "9.0"; None where it is not recorded.
        collectives_s: In each of the steps of `ProfileRecord.each_step`, the time in which it
            exchanged data with other GPUs, or waited for them, and computed nothing.
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
    """A TensorFlow operation, all of its runs together.

    Attributes:
        name: Its name in the graph, or its type where that is not recorded.
        type: Such as "MatMul".
        kind: What it does.
        time_s: Its own time in all steps; on a GPU, its kernels' time.
        count: How often it ran; on a GPU, how many kernels.
        share: Of all operations' time, 0 to 1.
    """

    name: str
    type: str
    kind: Kind
    time_s: float
    count: int
    share: float


@dataclass(frozen=True)
class KernelProfile:
    """A GPU kernel, all of its launches together.

    Attributes:
        name: As it is compiled.
        kind: What it does, by its name.
        time_s: In all steps, on all devices.
        count: How often it ran.
        share: Of all kernels' time, 0 to 1.
        tensor_core: Whether it uses Tensor Cores, by its name; None where the name does not say.
        operation: The TensorFlow operation that launched it most; None where it is not recorded.
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
        time_s: When.
        used_bytes: In use by tensors.
    """

    time_s: float
    used_bytes: int


@dataclass(frozen=True)
class Holding:
    """What one operation held at an allocator's peak.

    Attributes:
        operation: What asked for it, as TensorFlow names it.
        bytes: In all.
        count: Allocations.
        shape: Of the largest one, such as "[32,224,224,64]".
    """

    operation: str
    bytes: int
    count: int
    shape: str | None = None


@dataclass(frozen=True)
class MemoryProfile:
    """One allocator over the capture.

    Attributes:
        allocator: Such as "GPU_0_bfc".
        timeline: At most a few hundred readings; the highest and the lowest of each stretch of time
            are among them.
        peak_bytes: The most in use at one time while it was captured.
        peak_time_s: When that was.
        total_bytes: What the allocator could give at most; None where it does not say.
        holdings: Largest first, what was allocated during the capture and held at the peak.
        before_bytes: The rest of the peak: mostly what was allocated before the capture began, such
            as weights.
        fragmentation: At the peak, the part of the free memory in the allocator's pool that is not
            in its largest block, 0 to 1; None where it does not say.
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
        name: The stage's `name=` where it was given one, else its method of tf.data: "map"; the
            next one of the same kind, seen from training, is "map 2".
        kind: Such as "ParallelMapV2".
        blocked_s: Of a step's wait, the time in which this stage itself was at work.
        share: Of the whole wait, 0 to 1. Stages that work side by side may add up to more than 1.
        own_s: Time per step in which it was at work, its inputs left out, waited for or not.
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
    """What a profile says. Without steps, the figures of steps are None or empty.

    Attributes:
        host: The machine, as the file names it.
        fingerprint: Of the file's content; the same for a copy under another name.
        captured_s: When the capture began, in seconds since the Unix epoch.
        capture_s: How long it took.
        steps: Whole steps in it. The first execution is not counted where there are more than two,
            since it was caught half prepared; nor is the last, whose end is not in the profile.
        steps_per_execution: Steps that the host starts together.
        steps_from: How the steps were found: "marker", by what the profiling code marked; "train
            function", by Keras' own.
        steps_unknown_because: Why there are none, where there are none.
        span_s: From the first step's begin to the last one's end.
        step_time_s: Mean step time.
        parts_s: Mean step time by where it went; the parts add up to `step_time_s`. A moment
            belongs to the first that fits: a kernel ran; a kernel ran that exchanges data among
            GPUs, or, without a GPU, an operation exchanged data with other workers, or waited for
            them, and no other ran; a copy ran that is none from the host; the host waited for the
            next batch; a copy from the host ran; the host launched kernels; it was between a step's
            first operation and its last; it was between two steps' functions; nothing of all that,
            which is the Python code around the operations. Without a GPU what is computed is "host
            compute".
        kinds_s: The same for "device compute", or without a GPU for "host compute", by what was
            computed; of two at once, the first in `Kind`'s order counts. They add up to that part.
        each_step: The first 50 executions at most.
        stall_fraction: Time in which the run waited for input and computed nothing, over the time
            of the steps, 0 to 1.
        stall_unknown_because: Why it is None.
        devices: One entry a GPU; none without.
        operations: The longest, of the GPU where there is one, else of the host.
        kernels: The longest.
        memory: One entry an allocator that was recorded.
        stages: The most blocking first; none where nothing waits, or the pipeline is not recorded.
        problems: What the profiler itself reported, in words.
        incomplete_because: Why not all of the file was read.
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
