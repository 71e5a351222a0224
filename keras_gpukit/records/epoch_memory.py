"""Memory in use between the epochs of a run, when no step runs."""

from __future__ import annotations

from dataclasses import dataclass, field

HOST = "host"
"""Where an array of NumPy lies; a tensor lies on a device, such as "GPU:0"."""


@dataclass(frozen=True)
class Kept:
    """Tensors or arrays in a list, dictionary or the like of a callback or of the model.

    Attributes:
        name: "Saver.outputs": whose, and which attribute.
        where: "GPU:0", "CPU:0", or "host" for arrays of NumPy.
        size_bytes: What they take.
    """

    name: str
    where: str
    size_bytes: int


@dataclass(frozen=True)
class EpochMemory:
    """What was in use after an epoch, once all callbacks had been called.

    Attributes:
        epoch: Epochs that had ended, from 1.
        step: Global step.
        process_bytes: Resident memory of this process.
        left_bytes: What the machine, or the container's limit, could still give.
        current_bytes: Held by tensors, by device.
        peak_bytes: The most so far, by device.
        kept: The largest collections of tensors that callbacks and the model hold.
        tracings: How many times the step had been traced again after its first time.
    """

    epoch: int
    step: int
    process_bytes: int | None = None
    left_bytes: int | None = None
    current_bytes: dict[str, int] = field(default_factory=dict)
    peak_bytes: dict[str, int] = field(default_factory=dict)
    kept: tuple[Kept, ...] = ()
    tracings: int = 0
