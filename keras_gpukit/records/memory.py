"""What holds memory, what a batch needs of it, and why there was too little."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Literal

from keras_gpukit.records.displayed import Displayed

Execution = Literal["graph", "eager", "xla"]
NEARER_LOW = 0.25
"""Where in a predicted range the peak is expected: TensorFlow mostly runs first what was ready
first, and newest first is the rarer order. Chosen by the models of
`benchmarks/memory_prediction.py`."""
OptionKind = Literal["batch size", "mixed precision", "accumulation", "rematerialisation"]


@dataclass(frozen=True)
class HeldTensor:
    """One tensor of a training step.

    Attributes:
        name: Of the operation that makes it.
        shape: Its dimensions.
        size_bytes: What it takes.
        layer: The layer it belongs to, with the models it is nested in; None where that is unknown.
    """

    name: str
    shape: tuple[int, ...]
    size_bytes: int
    layer: str | None = None


@dataclass(frozen=True)
class MemoryByCause:
    """What is held at the moment of a step's highest use.

    Attributes:
        weights_bytes: Variables of the model: weights, moving statistics, metrics, seeds. Exact.
        slots_bytes: Variables of the optimizer. Exact.
        batch_bytes: The batch. Exact for one batch.
        activations_bytes: What the forward pass keeps for the backward pass.
        gradients_bytes: What the backward pass and the update hold at that moment.
        workspace_bytes: What kernels use while they work, and what the allocator rounds up.
    """

    weights_bytes: int = 0
    slots_bytes: int = 0
    batch_bytes: int = 0
    activations_bytes: int = 0
    gradients_bytes: int = 0
    workspace_bytes: int = 0

    @property
    def total_bytes(self) -> int:
        """All together."""
        return sum(getattr(self, each.name) for each in fields(self))

    @property
    def held_bytes(self) -> int:
        """What stays between steps."""
        return self.weights_bytes + self.slots_bytes


@dataclass(frozen=True)
class MemoryPrediction(Displayed):
    """What training steps need, predicted without running one.

    Attributes:
        batch_size: Examples in a batch.
        execution: How steps run.
        low: With the least that the order of operations and the kernels may take; None where
            nothing could be predicted.
        high: With the most.
        largest: The largest tensors that are held at the highest use, the largest first.
        limit_bytes: What the device gives, where that is known.
        fits_batch_size: The largest batch that is predicted to fit with a margin, where a limit is
            known.
        unknown_because: What the prediction leaves out, or why nothing could be predicted.
    """

    batch_size: int | None = None
    execution: Execution = "graph"
    low: MemoryByCause | None = None
    high: MemoryByCause | None = None
    largest: tuple[HeldTensor, ...] = ()
    limit_bytes: int | None = None
    fits_batch_size: int | None = None
    unknown_because: str | None = None

    @property
    def is_lower_bound(self) -> bool:
        """Whether the prediction leaves something out, so that steps need more."""
        return self.unknown_because is not None

    @property
    def peak_bytes(self) -> int | None:
        """Where the peak is expected in the range, nearer to its lower end."""
        if self.low is None or self.high is None:
            return None
        low, high = self.low.total_bytes, self.high.total_bytes
        return int(low + NEARER_LOW * (high - low))


@dataclass(frozen=True)
class AllocatorState:
    """An allocator at the moment it could not give memory. Unknown figures are None.

    Attributes:
        asked_bytes: What was asked for.
        limit_bytes: The most it may take.
        in_use_bytes: What tensors held.
        in_use_is_peak: Whether `in_use_bytes` is the most of the run and not of that moment.
        free_bytes: What it had left, in all.
        largest_free_bytes: The largest block of it, with what it could still have taken in one.
        from_log: Whether the figures were read from TensorFlow's log.
    """

    asked_bytes: int | None = None
    limit_bytes: int | None = None
    in_use_bytes: int | None = None
    in_use_is_peak: bool = False
    free_bytes: int | None = None
    largest_free_bytes: int | None = None
    from_log: bool = False


@dataclass(frozen=True)
class GPUHolder:
    """A process that holds memory of a GPU.

    Attributes:
        pid: Its number.
        used_bytes: What it holds.
        name: Of its program, where that is visible.
    """

    pid: int
    used_bytes: int
    name: str | None = None


@dataclass(frozen=True)
class MemoryOption:
    """One way to need less.

    Attributes:
        kind: What to change.
        needs_bytes: The peak that is predicted with it, at the upper end.
        fits: Whether that is under the limit with a margin; None where no limit is known.
        batch_size: With which batch, or micro-batch.
        note: What else it takes.
    """

    kind: OptionKind
    needs_bytes: int | None = None
    fits: bool | None = None
    batch_size: int | None = None
    note: str | None = None


@dataclass(frozen=True)
class OutOfMemory:
    """A call that ended because a device had too little memory.

    Attributes:
        device: "GPU:0".
        operation: The operation that asked, by its name in the graph or by its type.
        layer: The layer it belongs to, where that is known.
        backward: Whether it belongs to the backward pass.
        shape: Of the tensor that was asked for; None where memory was asked for as one block.
        dtype: Of the tensor.
        state: The allocator.
        execution: How the step ran.
        step: Global step.
        batch_size: Examples in the batch, where that is known.
        holders: Other processes on the GPU; None where they are not visible.
        prediction: What steps with this batch need.
        options: What would fit.
        options_unknown_because: Why there are none.
    """

    device: str
    operation: str | None = None
    layer: str | None = None
    backward: bool = False
    shape: tuple[int, ...] | None = None
    dtype: str | None = None
    state: AllocatorState = field(default_factory=AllocatorState)
    execution: Execution = "graph"
    step: int | None = None
    batch_size: int | None = None
    holders: tuple[GPUHolder, ...] | None = None
    prediction: MemoryPrediction | None = None
    options: tuple[MemoryOption, ...] = ()
    options_unknown_because: str | None = None

    @property
    def is_fragmented(self) -> bool | None:
        """Whether enough was free in all, but in no single block; None where that is unknown."""
        asked, free = self.state.asked_bytes, self.state.free_bytes
        if asked is None or free is None:
            return None
        if free >= asked:
            return True
        # What is free of the most that was ever in use is at most what was free at that moment.
        return None if self.state.in_use_is_peak else False
