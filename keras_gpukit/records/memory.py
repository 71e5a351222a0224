"""Device memory: what holds it, what a training step needs, and why it ran out."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Literal

from keras_gpukit.records import Displayed

Execution = Literal["graph", "eager", "xla"]
NEARER_LOW = 0.25
"""Position of the expected peak in the predicted range, from 0 for the lower end to 1 for the upper
end. TensorFlow mostly runs operations in the order in which they became ready; running the newest
first is rarer. Chosen with the models of `benchmarks/results/memory_prediction.json`."""
MemoryPart = Literal["training", "validation", "evaluation", "prediction"]
OptionKind = Literal["batch size", "mixed precision", "accumulation", "rematerialization"]


@dataclass(frozen=True)
class HeldTensor:
    """One tensor of a training step."""

    name: str
    shape: tuple[int, ...]
    size_bytes: int
    layer: str | None = None


@dataclass(frozen=True)
class MemoryByCause:
    """Memory in use at the peak of a step, by cause.

    Attributes:
        weights_bytes: Variables of the model, and of other models that its step uses: weights,
            moving statistics, metrics, seeds. Exact.
        batch_bytes: Batches in memory, and what the device held in addition to the model and the
            optimizer. Exact for one batch; upper estimates have two, as the next one may be ready.
        activations_bytes: Activations that the forward pass keeps for the backward pass.
        gradients_bytes: Tensors that the backward pass and the weight update hold at that moment.
        workspace_bytes: Workspace of kernels, and what the allocator adds by rounding up.
    """

    weights_bytes: int = 0
    slots_bytes: int = 0
    batch_bytes: int = 0
    activations_bytes: int = 0
    gradients_bytes: int = 0
    workspace_bytes: int = 0

    @property
    def total_bytes(self) -> int:
        """Sum of all causes."""
        return sum(getattr(self, cause.name) for cause in fields(self))

    @property
    def held_bytes(self) -> int:
        """Memory that stays in use between steps: weights and slots."""
        return self.weights_bytes + self.slots_bytes


@dataclass(frozen=True)
class MemoryPrediction(Displayed):
    """Memory that training steps need, predicted without running one.

    Attributes:
        low: Lower end of the predicted range, for the order of operations and the kernels that need
            least; None if nothing could be predicted.
        fits_batch_size: Largest batch size that is predicted to fit in 90 % of the limit, divided
            as the allocator divides it; None if no limit is known or no batch fits.
        unknown_because: Parts that the prediction leaves out, or why nothing could be predicted;
            None if it is complete.
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
        """Whether the prediction leaves something out, which steps need in addition."""
        return self.unknown_because is not None

    @property
    def is_upper_bound(self) -> bool:
        """Whether steps need less: XLA fuses operations, and never stores what is between them."""
        return self.execution == "xla" and not self.is_lower_bound

    @property
    def peak_bytes(self) -> int | None:
        """Expected peak: a point of the predicted range, nearer to its lower end.

        For steps compiled by XLA it is the upper end.
        """
        if self.low is None or self.high is None:
            return None
        low, high = self.low.total_bytes, self.high.total_bytes
        return high if self.is_upper_bound else int(low + NEARER_LOW * (high - low))


@dataclass(frozen=True)
class AllocatorState:
    """An allocator at the moment it ran out of memory. Unknown figures are None.

    Attributes:
        in_use_is_peak: Whether `in_use_bytes` is the peak of the run and not the value at that
            moment.
        largest_free_bytes: Largest free block. Memory that the allocator had not taken yet counts
            as one block.
    """

    asked_bytes: int | None = None
    limit_bytes: int | None = None
    in_use_bytes: int | None = None
    in_use_is_peak: bool = False
    free_bytes: int | None = None
    largest_free_bytes: int | None = None


@dataclass(frozen=True)
class GPUHolder:
    """A process that holds memory on a GPU."""

    pid: int
    used_bytes: int
    name: str | None = None


@dataclass(frozen=True)
class MemoryOption:
    """One way to reduce the memory of a step.

    Attributes:
        needs_bytes: Predicted peak with this change, at the upper end.
        batch_size: Batch size with this change. With "accumulation", size of a micro-batch.
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
        layer_class: Class of the layer, such as "Dense".
        shape: Shape of the requested tensor; None if memory was requested as one block.
        batch_size: Number of examples in a batch of the part that ran out of memory.
        holders: Other processes on the GPU, largest first; None if they are not visible.
        device_bytes: Memory of the GPU, without what other logical GPUs of this process may take;
            None if unknown.
        options_unknown_because: Why there are no options, or no smaller batch among them.
        part: Part of the run that ran out; None if unknown.
        in_callback: Whether a callback called that part.
        role: Use of `function` by the model; None for other functions, such as a `train_step`.
        function: Function of user code, or loss or metric of Keras, that made the operation.
        line: Line of user code that made the operation or, in a callback, that called the part.
        batches_given: Whether the data of that part are batches already, as those of a
            `tf.data.Dataset` are; None if unknown.
        training_batch_size: Batch size of the `fit` whose validation ran out of memory.
        usual_batch_size: Examples in the batches before, if the last one has at least 4 times more.
        varying_length: Largest length in `shape` that is neither the batch size nor in the shape of
            a weight, if the batches of the data vary in a length of their examples and those before
            did fit.
        of_weights: Whether the tensor has the shape of some of the model's weights.
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
    device_bytes: int | None = None
    prediction: MemoryPrediction | None = None
    options: tuple[MemoryOption, ...] = ()
    options_unknown_because: str | None = None
    part: MemoryPart | None = None
    in_callback: bool = False
    layer_class: str | None = None
    role: Literal["loss", "metric"] | None = None
    function: str | None = None
    line: str | None = None
    batches_given: bool | None = None
    training_batch_size: int | None = None
    usual_batch_size: int | None = None
    varying_length: int | None = None
    of_weights: bool = False

    @property
    def left_bytes(self) -> int | None:
        """Memory of the GPU that other processes leave; None if unknown."""
        if self.device_bytes is None:
            return None
        return self.device_bytes - sum(holder.used_bytes for holder in self.holders or ())

    @property
    def room_bytes(self) -> int | None:
        """Memory that a step can take: the limit, or what other processes leave of it."""
        limit, left = self.state.limit_bytes, self.left_bytes
        return limit if limit is None or left is None else min(limit, left)

    @property
    def is_crowded(self) -> bool:
        """Whether other processes hold memory that this one might take."""
        limit, left = self.state.limit_bytes, self.left_bytes
        return bool(self.holders) and (limit is None or left is None or left < limit)

    @property
    def is_capped(self) -> bool:
        """Whether the GPU has more memory than the limit that this process was given."""
        limit, left = self.state.limit_bytes, self.left_bytes
        return limit is not None and left is not None and limit < left

    @property
    def is_fragmented(self) -> bool | None:
        """Whether enough memory was free in total, but not in one block; None if unknown."""
        asked, free = self.state.asked_bytes, self.state.free_bytes
        if asked is None or free is None:
            return None
        if free >= asked:
            return True
        # Free memory at the run's peak is a lower bound of the free memory at that moment.
        return None if self.state.in_use_is_peak else False
