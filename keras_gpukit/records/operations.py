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
    """What decides which devices an operation can run on; many operations share one.

    Attributes:
        type: TensorFlow operation type, such as "MatMul".
        types: Names of its type attributes ("T"), each with the dtypes it stands for.
        requested: Device asked for by `tf.device` or a strategy, such as "CPU:0" or "GPU:*"; empty
            where none was. With XLA, what the compiled part was asked onto.
        compiled: Whether XLA compiled it, as a part of a larger kernel.
        colocated: Operation whose device the graph asks for; empty where it asks for none.
        ignored_request: Device asked for within the compiled part, which XLA does not heed.
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
        kind: What it is.
        name: Its name, layer included, without the functions it was inlined from.
        device: Where it ran: "GPU:0", "CPU:0".
        compiled_in: Name of the call that XLA compiled it with; empty where XLA did not.
    """

    kind: OperationKind
    name: str
    device: str
    compiled_in: str = ""


@dataclass(frozen=True)
class SentTensor:
    """A tensor on its way from one device to another.

    Attributes:
        operation: Name of the operation that made it, layer included, as `Operation.name`.
        source: Device it comes from.
        target: Device it goes to.
        dtype: Such as "float32".
        shape: None where it is not known.
        size_bytes: None where it is not known.
        in_loop: Whether it is sent each time that a loop of the model turns.
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
    """What one way of reading placement saw in one step.

    Attributes:
        operations: Every operation, bookkeeping left out.
        transfers: Copies between devices; None where this way cannot see them.
        mechanism: "graph", "eager" or "xla".
        transfers_between: Copies by their ends, such as "GPU:0 to GPU:1".
        sent: The tensors copied; None where this way cannot see them.
    """

    operations: tuple[Operation, ...]
    transfers: int | None
    mechanism: str
    transfers_between: Mapping[str, int] = field(default_factory=dict)
    sent: tuple[SentTensor, ...] | None = None


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
