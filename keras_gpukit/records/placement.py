"""The operations of a training step, where each of them ran, and why."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

OWN_SCOPE = "gpukit_clock"
"""Name scope of operations that this package adds to a step; placement leaves them out."""

PYTHON_OPERATIONS = frozenset({"PyFunc", "PyFuncStateless", "EagerPyFunc"})
"""Operation types that call Python, which runs on the host."""


@dataclass(frozen=True)
class OperationKind:
    """Properties that decide which devices an operation can run on. Many operations share one kind.

    Attributes:
        types: Type attributes of the operation ("T"), each with the dtypes it stands for.
        requested: Device that `tf.device` or a strategy requests, such as "CPU:0" or "GPU:*"; empty
            if none is. With XLA, the device requested for the compiled part.
        ignored_request: Device requested for the operation within a compiled part, which XLA
            ignores; empty if there is no such request.
    """

    type: str
    types: tuple[tuple[str, tuple[str, ...]], ...] = ()
    requested: str = ""
    compiled: bool = False
    colocated: str = ""
    ignored_request: str = ""


@dataclass(frozen=True)
class Operation:
    """An operation that ran in the step.

    Attributes:
        name: Name of the operation, including the layer but not the functions it was inlined from.
    """

    kind: OperationKind
    name: str
    device: str
    compiled_in: str = ""


@dataclass(frozen=True)
class SentTensor:
    """A tensor that one device sends to another.

    Attributes:
        host_only: Whether it is in host memory on both devices.
    """

    operation: str
    source: str
    target: str
    dtype: str
    shape: tuple[int, ...] | None
    size_bytes: int | None
    in_loop: bool = False
    host_only: bool = False


@dataclass(frozen=True)
class StepOperations:
    """Operations of one step, and what they exchange.

    Attributes:
        transfers_between: Number of copies between devices, such as "CPU:0 to GPU:0".
        sent: Copied tensors.
        python_bytes: Bytes that operations which call Python take and return, by their type, as far
            as their size is known.
    """

    operations: tuple[Operation, ...]
    transfers_between: Mapping[str, int] = field(default_factory=dict)
    sent: tuple[SentTensor, ...] = ()
    python_bytes: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Kernel:
    """A kernel that TensorFlow has for GPUs.

    Attributes:
        allowed: Dtypes that the kernel accepts, by type attribute. An attribute that is not listed
            accepts any.
    """

    allowed: Mapping[str, frozenset[str]]
    host_arguments: frozenset[str]


@dataclass(frozen=True)
class OperationKernels:
    """Arguments of an operation type, and its kernels for GPUs.

    Arguments do not include resource handles, which are always in host memory.
    """

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    uses_resource: bool
    gpu: tuple[Kernel, ...]


FallbackCause = Literal[
    "no such device",
    "no kernel",
    "dtype",
    "host function",
    "compiled",
    "variable elsewhere",
    "requested",
    "host memory",
]
"""Why operations are where they are, sorted by how likely a mistake is, the most likely first."""


@dataclass(frozen=True)
class Fallback:
    """Operations of one type that run on the CPU for one reason, where a GPU would be expected.

    TensorFlow may place those that call Python on a GPU. Their functions run on the host even so.

    Attributes:
        python_bytes: Bytes that they take and return in each step, if they call Python, as far as
            the size of these tensors is known; None for other operations.
    """

    operation: str
    count: int
    cause: FallbackCause
    reason: str
    names: tuple[str, ...] = ()
    python_bytes: int | None = None


@dataclass(frozen=True)
class PlacedOperations:
    """Operations of one type in one layer that are on one device for one reason.

    Attributes:
        layer: Layer that they belong to, such as "backbone/conv2d"; None for those of no layer,
            such as the optimizer's.
        device: Device that they run on, such as "GPU:0". With XLA, device of the compiled part that
            they are in.
        expected: Whether they are on the requested device or, if none was requested, on a GPU if
            there is one.
        cause: Category of the reason, given also for operations that were requested onto the CPU;
            None if they are otherwise where expected, or the reason is unknown.
    """

    operation: str
    layer: str | None
    device: str
    count: int
    requested: str | None = None
    expected: bool = True
    cause: FallbackCause | None = None
    reason: str | None = None
    compiled: bool = False


@dataclass(frozen=True)
class CompiledPart:
    """A part of the step that XLA compiles as a whole."""

    name: str
    device: str
    operations: int


@dataclass(frozen=True)
class CopiedTensor:
    """A tensor that one device sends to another in each step."""

    operation: str
    layer: str | None
    dtype: str
    shape: tuple[int, ...]
    size_bytes: int


@dataclass(frozen=True)
class DeviceCopies:
    """Tensors that one device sends to another in each step.

    Signals that only keep an order and hold no numbers are left out, although `transfers` counts
    them. So is what collectives such as NCCL exchange.

    Attributes:
        size_bytes: Total size of the tensors of known size; None if no size is known.
        unknown: Number of tensors of unknown size, such as text.
        in_loops: Number of tensors sent within a loop of the model. They are sent in each iteration
            and counted once.
        host_only: Number of tensors in host memory on both devices, such as shapes. They cross no
            bus, and their size is not counted.
    """

    source: str
    target: str
    count: int
    size_bytes: int | None
    unknown: int = 0
    in_loops: int = 0
    host_only: int = 0
    largest: tuple[CopiedTensor, ...] = ()


PythonRole = Literal["layer", "loss", "metric", "step"]
"""Part of the step that calls a Python function; "step" if its name does not say which."""


@dataclass(frozen=True)
class PythonFunction:
    """A Python function that an operation of the step calls, as by `tf.numpy_function`.

    Attributes:
        name: Name of the function, such as "of_batch".
        place: Line of its definition, such as "train.py:27".
        part: Name of the layer, loss or metric that calls it, if that is known.
    """

    name: str
    place: str
    role: PythonRole = "step"
    part: str | None = None


@dataclass(frozen=True)
class PlacementRecord:
    """Real placement of the training step, read after TensorFlow's placer and optimizer.

    Attributes:
        operations: Number of operations by device ("GPU:0", "CPU:0") and operation type.
        fallbacks: Operations that run on the CPU although there is a GPU. On a machine without
            GPUs: operations that would do so on a GPU machine, see `predicted`.
        predicted: Whether `fallbacks` is a prediction of what would happen on a GPU, since this
            machine has none.
        rows: Operations by layer, with requested device, actual device and reason. Those that are
            not where they were expected come first, then the most common of the others.
        copies: Tensors that devices send to each other in each step, by source and target, the most
            bytes first; None if they cannot be seen, as in an eager step.
        not_compilable: Types of operations outside `compiled_parts` that XLA has no kernel for,
            without the end of the input pipeline; None if XLA compiles nothing or its kernels
            cannot be listed.
        python: Python functions that the step's operations call.
    """

    operations: dict[str, dict[str, int]] = field(default_factory=dict)
    fallbacks: tuple[Fallback, ...] = ()
    predicted: bool = False
    transfers: int | None = None
    mechanism: str | None = None
    unknown_because: str | None = None
    transfers_between: dict[str, int] = field(default_factory=dict)
    rows: tuple[PlacedOperations, ...] = ()
    rows_left_out: int = 0
    operations_left_out: int = 0
    copies: tuple[DeviceCopies, ...] | None = None
    compiled_parts: tuple[CompiledPart, ...] = ()
    not_compilable: tuple[str, ...] | None = None
    python: tuple[PythonFunction, ...] = ()

    @property
    def copied_bytes(self) -> int | None:
        """Bytes copied between devices in each step; None if the size of a tensor is unknown."""
        if self.copies is None or any(copies.unknown for copies in self.copies):
            return None
        return sum(copies.size_bytes or 0 for copies in self.copies)

    @property
    def by_device(self) -> dict[str, int]:
        """Number of operations on each device."""
        return {device: sum(counts.values()) for device, counts in self.operations.items()}


NO_STEP = PlacementRecord(unknown_because="placement is read from the first training step")
"""Record of a call without a training step."""
