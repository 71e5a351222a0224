"""Split of a model over devices: its stages, and the tensors that pass between them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from keras_gpukit.records.displayed import Displayed

SplitBy = Literal["memory", "boundaries", "layers"]


@dataclass(frozen=True)
class ModelStage:
    """The layers on one device.

    Attributes:
        layers: Names of the layers in the order of the forward pass. Layers of nested models are
            named "model/layer".
        activation_bytes: Size of the activations that the forward pass keeps for the backward pass,
            at the plan's batch size. The plan's notes say what is not counted.
    """

    device: str
    layers: tuple[str, ...]
    weight_bytes: int
    slot_bytes: int
    activation_bytes: int

    @property
    def memory_bytes(self) -> int:
        """Sum of weights, slots and activations."""
        return self.weight_bytes + self.slot_bytes + self.activation_bytes


@dataclass(frozen=True)
class Crossing:
    """A tensor of the forward pass that one device sends to another in each step.

    The backward pass sends its gradient the other way.

    Attributes:
        size_bytes: Size at the plan's batch size; None if the shape is unknown before training.
    """

    layer: str
    from_device: str
    to_device: str
    size_bytes: int | None


@dataclass(frozen=True)
class SplitPlan(Displayed):
    """How `split_model` split a model."""

    stages: tuple[ModelStage, ...]
    crossings: tuple[Crossing, ...]
    chosen_by: SplitBy
    batch_size: int
    optimizer: str
    notes: tuple[str, ...] = ()

    @property
    def device_of(self) -> dict[str, str]:
        """Device of each layer, by layer name."""
        return {layer: stage.device for stage in self.stages for layer in stage.layers}
