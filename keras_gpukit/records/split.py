"""How a model is split over devices: its stages, and the tensors that pass between them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from keras_gpukit.records.displayed import Displayed

SplitBy = Literal["memory", "boundaries", "layers"]


@dataclass(frozen=True)
class Stage:
    """The layers on one device.

    Attributes:
        device: Such as "/GPU:0".
        layers: Names in the order of the forward pass; those of nested models as "model/layer".
        weight_bytes: Their variables, trainable or not.
        slot_bytes: What the optimizer keeps for each of their trainable variables.
        activation_bytes: What the forward pass keeps for the backward pass, at the plan's batch;
            the plan's notes say what is not counted.
    """

    device: str
    layers: tuple[str, ...]
    weight_bytes: int
    slot_bytes: int
    activation_bytes: int

    @property
    def memory_bytes(self) -> int:
        """Weights, slots and activations together."""
        return self.weight_bytes + self.slot_bytes + self.activation_bytes


@dataclass(frozen=True)
class Crossing:
    """A tensor of the forward pass that one device sends to another in each step.

    The backward pass sends its gradient the other way.

    Attributes:
        layer: The layer that makes it.
        from_device: Where that layer is.
        to_device: Where it is used.
        size_bytes: At the plan's batch; None where the shape is not known before training.
    """

    layer: str
    from_device: str
    to_device: str
    size_bytes: int | None


@dataclass(frozen=True)
class SplitPlan(Displayed):
    """How `split_model` split a model.

    Attributes:
        stages: One for each device, in the order of the forward pass.
        crossings: What the forward pass sends from device to device in each step.
        chosen_by: "memory", "boundaries" or "layers".
        batch_size: Examples in the batch that the activations were measured at.
        optimizer: The optimizer that the slots were measured with.
        notes: What the figures leave out, or rest on.
    """

    stages: tuple[Stage, ...]
    crossings: tuple[Crossing, ...]
    chosen_by: SplitBy
    batch_size: int
    optimizer: str
    notes: tuple[str, ...] = ()

    @property
    def device_of(self) -> dict[str, str]:
        """The device of each layer, by its name."""
        return {layer: stage.device for stage in self.stages for layer in stage.layers}
