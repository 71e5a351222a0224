"""Captured profiles: when and why they were taken, and what they contain.

Times on a timeline are in seconds since the first step in the profile began. Earlier times are
negative.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

Trigger = Literal["steps", "time", "file", "steady", "step time"]
"""Source of a request for a capture: given steps, the clock, a file on demand, or
`Monitor` by itself, once steps were steady, and if they became slower later ("step time")."""


@dataclass(frozen=True)
class CaptureRecord:
    """A capture of a few steps.

    Attributes:
        first_step: Global step of the first captured step. The model's very first step is 1, and a
            later run continues the count.
        duration_s: Time from the start of the first captured step to the end of the last one.
        blocked_s: How long training was paused to start the capture. Another thread stops it and
            writes the file; that is not included.
        incomplete_because: Reason that TensorFlow's profiler gave for what it could not record, and
            what to do about it.
        stall_fraction: For a capture that `Monitor` took by itself: share of its steps' time in
            which the run waited for input and computed nothing, from the profile.
        live_stall_fraction: Share of the same steps' time that `InputStall` measured as wait for
            input during the run, or the lower end of its range; None if the two cannot be compared.
        live_most_stall_fraction: Upper end of that range; None if it is no range.
        unread_because: Why the run did not read a profile that it took by itself.
    """

    run: str
    trigger: Trigger
    reason: str
    first_step: int
    steps: int
    time_s: float
    duration_s: float
    blocked_s: float
    path: str | None = None
    profile_bytes: int | None = None
    ended_early_because: str | None = None
    incomplete_because: str | None = None
    failed_because: str | None = None
    stall_fraction: float | None = None
    live_stall_fraction: float | None = None
    live_most_stall_fraction: float | None = None
    unread_because: str | None = None


@dataclass(frozen=True)
class MissedCapture:
    """A capture that was requested but not started."""

    trigger: Trigger
    reason: str
    step: int
    because: str


@dataclass(frozen=True)
class ProfilerRecord:
    """All captures of a run: those taken and those missed.

    Attributes:
        missed: Captures that were requested but not started; at most the first 20.
        none_automatic_because: Why `Monitor` took none by itself; None if it took or missed one.
    """

    captures: tuple[CaptureRecord, ...] = ()
    missed: tuple[MissedCapture, ...] = ()
    unknown_because: str | None = None
    none_automatic_because: str | None = None


StepSource = Literal["marker", "train function"]
StepPart = Literal[
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
    "bias gradient",
    "cast",
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
    """

    number: int | None
    duration_s: float
    parts_s: dict[StepPart, float]


@dataclass(frozen=True)
class DeviceProfile:
    """One GPU while the steps ran.

    Attributes:
        busy_fraction: Share of the time in which a kernel or a copy ran.
        host_to_device_bytes: Bytes copied from the host to the GPU; None if the copies do not
            report their size.
        tensor_core_fraction: Share of the kernels' time in kernels whose names say that they use
            Tensor Cores. Others may use them too, as the names of XLA's Triton kernels do not say.
            None if no kernel ran.
        collectives_s: Seconds in which the GPU exchanged data with other GPUs, or waited for them,
            and computed nothing, for each step of `ProfileRecord.each_step`.
    """

    device: str
    busy_fraction: float
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
        time_s: Seconds in all steps, without other operations; on a GPU, time of its kernels.
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
        tensor_core: Whether the kernel uses Tensor Cores, from its name; None if the name does not
            say.
    """

    name: str
    kind: Kind
    time_s: float
    count: int
    share: float
    tensor_core: bool | None
    operation: str | None = None


BETWEEN = "between operations"
"""Path of the pauses between operations, among the layers of a profile."""
LayerRole = Literal["layer", "loss", "metrics", "optimizer", "line", "other"]


@dataclass(frozen=True)
class LayerProfile:
    """The time of one layer's operations in a step: of its kernels on the GPUs, else on the host.

    Attributes:
        path: Names of the layer and of the models around it, outermost first, such as
            "functional/dense_7"; without a layer, the name of the role, of a metric's class, or the
            line of the script.
        role: "optimizer": operations that update the weights. "line": those that a line of the
            script makes outside of layers. "other": what neither name nor stack attributes.
        time_s: Seconds per step. The layers of a profile add up to the computation in `parts_s`.
        backward_s: The part of `time_s` that belongs to the backward pass.
        kinds_s: Seconds per step by kind of computation.
        kernels: Number of kernels per step; without a GPU, of operations.
        tensor_core_fraction: Share of the time in kernels whose names say that they use Tensor
            Cores; None without a GPU.
        largest: The kernels, or operations, that took the most time, at most three; of what belongs
            to no layer and is not divided, at most 20. Their times are sums over all steps, their
            shares are of the layer.
        class_name: Class of the layer, such as "Embedding"; None if the model was not looked at.
        place: Line of the script that makes the layer, such as "train.py:23", if it shows it, or
            the operations.
        weight_shape: Shape of its largest weight.
        inputs: Numbers that it gets for each example.
    """

    path: str
    role: LayerRole
    time_s: float
    backward_s: float
    kinds_s: dict[Kind, float]
    kernels: float
    tensor_core_fraction: float | None = None
    largest: tuple[KernelProfile, ...] = ()
    class_name: str | None = None
    place: str | None = None
    weight_shape: tuple[int, ...] | None = None
    inputs: int | None = None


@dataclass(frozen=True)
class StageProfile:
    """A stage of the tf.data pipeline.

    Attributes:
        name: The stage's `name=` if it was given one, else its tf.data method, such as "map".
            Further stages of the same method are numbered from training on: "map 2".
        blocked_s: Seconds of a step's wait in which the stage itself was at work.
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
class RepeatedCalls:
    """Calls of a model or layer within a step that compute with the same weights on the same data.

    Attributes:
        name: Name of the model or layer.
        calls: Number of such calls that ran.
        again_s: Seconds per step that all calls but the first took, as a share of all calls by
            that name.
        places: Lines of the script that make them, such as "train.py:72".
    """

    name: str
    calls: int
    again_s: float
    places: tuple[str, ...] = ()


@dataclass(frozen=True)
class ProfileRecord:
    """Contents of a profile. Without steps, the figures of steps are None or empty.

    Attributes:
        captured_s: When the capture began, in seconds since the Unix epoch.
        steps: Number of complete steps. Of more than two executions, the first is not counted,
            since the profiler was still starting. The last is not counted either, since its end is
            not in the profile.
        steps_per_execution: Number of steps that the host starts together.
        steps_from: How the steps were found: by the markers that profiling code set, or by Keras'
            own function.
        parts_s: Mean step time by part, in seconds; the parts add up to `step_time_s`. A moment
            belongs to the first part that fits. "device compute": a kernel ran. "collectives": a
            kernel exchanged data among GPUs; without a GPU, an operation exchanged data with other
            workers, or waited for them, and no other ran. "other copies": a copy ran that is not
            from the host. "input wait": the host waited for the next batch. "host to device": a
            copy from the host ran, or the host copied to pinned memory for one. "kernel launch":
            on a GPU, TensorFlow ran the step's function, which launches kernels. "host compute": an
            operation ran on the host or waited for a GPU; without a GPU, between a step's first
            operation and its last. "between steps": between two steps' functions. "idle": none of
            these, which is Python code around the operations.
        kinds_s: Mean seconds per step of "device compute" (without a GPU: "host compute") by kind
            of computation. They add up to that part. If two kinds run at the same time, the first
            in the order of `Kind` counts.
        each_step: One entry per execution; at most the first 50.
        layers: Time by layer, in the order of the forward pass.
        loops: Lines of the script that make a loop within the step, such as `tf.map_fn`.
        repeats: Calls that repeat others within a step.
        python_s: Mean seconds per step in which operations called Python functions.
        stall_fraction: Share of the steps' time in which the run waited for input and computed
            nothing.
        stages: Stages of the tf.data pipeline, the most blocking first; empty if nothing waits or
            the pipeline was not recorded.
    """

    captured_s: float | None = None
    steps: int = 0
    steps_per_execution: int = 1
    steps_from: StepSource | None = None
    steps_unknown_because: str | None = None
    span_s: float | None = None
    step_time_s: float | None = None
    parts_s: dict[StepPart, float] = field(default_factory=dict)
    kinds_s: dict[Kind, float] = field(default_factory=dict)
    each_step: tuple[StepProfile, ...] = ()
    stall_fraction: float | None = None
    stall_unknown_because: str | None = None
    devices: tuple[DeviceProfile, ...] = ()
    operations: tuple[OperationProfile, ...] = ()
    kernels: tuple[KernelProfile, ...] = ()
    layers: tuple[LayerProfile, ...] = ()
    loops: tuple[str, ...] = ()
    repeats: tuple[RepeatedCalls, ...] = ()
    python_s: float | None = None
    stages: tuple[StageProfile, ...] = ()
    problems: tuple[str, ...] = ()
    incomplete_because: str | None = None

    @property
    def between_fraction(self) -> float:
        """Share of the layers' time that passes between operations; 0 without layers."""
        between_s = sum(layer.time_s for layer in self.layers if layer.path == BETWEEN)
        return between_s / (sum(layer.time_s for layer in self.layers) or 1.0)
