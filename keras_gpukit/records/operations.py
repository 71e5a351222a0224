"""The operations of a training step, and the kernels that TensorFlow has for them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

OWN_SCOPE = "gpukit_clock"
"""Name scope of operations that this package adds to a step; placement leaves them out."""


@dataclass(frozen=True)
class OperationKind:
    """What decides which devices an operation can run on; many operations share one.

    Attributes:
        type: TensorFlow operation type, such as "MatMul".
        types: Names of its type attributes ("T"), each with the dtypes it stands for.
        requested: Device asked for by `tf.device` or a strategy; empty where none was.
        compiled: Whether XLA compiled it, as a part of a larger kernel.
    """

    type: str
    types: tuple[tuple[str, tuple[str, ...]], ...] = ()
    requested: str = ""
    compiled: bool = False


@dataclass(frozen=True)
class Operation:
    """An operation that ran in the step.

    Attributes:
        kind: What it is.
        name: Its name, layer included, without the functions it was inlined from.
        device: Where it ran: "GPU:0", "CPU:0".
    """

    kind: OperationKind
    name: str
    device: str


@dataclass(frozen=True)
class StepOperations:
    """What one way of reading placement saw in one step.

    Attributes:
        operations: Every operation, bookkeeping left out.
        transfers: Copies between devices; None where this way cannot see them.
        mechanism: "graph", "eager" or "xla".
        transfers_between: Copies by their ends, such as "GPU:0 to GPU:1".
    """

    operations: tuple[Operation, ...]
    transfers: int | None
    mechanism: str
    transfers_between: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Kernel:
    """A kernel that a GPU can be given.

    Attributes:
        allowed: The dtypes it takes, by type attribute; one not named takes any.
        host_arguments: Arguments that it keeps in host memory.
    """

    allowed: Mapping[str, frozenset[str]]
    host_arguments: frozenset[str]


@dataclass(frozen=True)
class OperationKernels:
    """An operation's arguments, and its kernels for a GPU.

    Resource handles are left out of the arguments: they always live in host memory.

    Attributes:
        inputs: Names of its inputs.
        outputs: Names of its outputs.
        uses_resource: Whether it takes a variable, a table or the like.
        gpu: Its kernels for a GPU, those TensorFlow prefers first.
    """

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    uses_resource: bool
    gpu: tuple[Kernel, ...]
