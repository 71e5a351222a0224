"""The operations of a training step, and the kernels that TensorFlow has for them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

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
    """Operations of one step, as one way of reading placement sees them.

    Attributes:
        transfers: Number of copies between devices; None if this way cannot see them.
        sent: Copied tensors; None if this way cannot see them.
        python_bytes: Bytes that operations which call Python take and return, by their type, as far
            as their size is known.
    """

    operations: tuple[Operation, ...]
    transfers: int | None
    mechanism: str
    transfers_between: Mapping[str, int] = field(default_factory=dict)
    sent: tuple[SentTensor, ...] | None = None
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
