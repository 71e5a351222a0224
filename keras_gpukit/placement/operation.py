"""One operation of a training step, as the graphs or the eager runtime gave it."""

from __future__ import annotations

from dataclasses import dataclass


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
    """

    operations: tuple[Operation, ...]
    transfers: int | None
    mechanism: str


# Types that compute nothing in a step: they hand a value on, steer, or hold a constant. They are
# not counted.
BOOKKEEPING = frozenset(
    {"_Arg", "_DeviceArg", "_Retval", "_DeviceRetval", "_XlaRun", "_XlaMerge"}
    | {"_Send", "_HostSend", "_Recv", "_HostRecv"}
    | {"NoOp", "Const", "_HostConst", "Identity", "IdentityN", "ControlTrigger"}
    | {"Enter", "Exit", "Switch", "Merge", "NextIteration", "LoopCond"}
)


class PlacementUnknownError(Exception):
    """Placement cannot be read here; the message says why. It never leaves this folder."""
