"""Memory in use between the epochs of a run, or between fits, when no step runs."""

from __future__ import annotations

from dataclasses import dataclass, field

HOST = "host"
"""Where an array of NumPy lies; a tensor lies on a device, such as "GPU:0"."""


@dataclass(frozen=True)
class Kept:
    """Tensors or arrays in a list, dictionary or the like: of a callback, the model or the script.

    Attributes:
        name: "Saver.outputs": whose, and which attribute; of a global variable "losses", or
            "buffer.items" where it is an attribute of one.
        where: "GPU:0", "CPU:0", or "host" for arrays of NumPy.
        size_bytes: What they take.
        module: The script's file, such as "train.py", or the module, such as "project.data", whose
            global variable it is; None for what a callback or the model holds.
        length: Its items; None where they were not counted.
    """

    name: str
    where: str
    size_bytes: int
    module: str | None = None
    length: int | None = None

    @property
    def label(self) -> str:
        """Its name, with the module."""
        return self.name if self.module is None else f"{self.name} of {self.module}"


@dataclass(frozen=True)
class EpochMemory:
    """What was in use after an epoch, once all callbacks had been called, or after a fit.

    Attributes:
        epoch: Epochs that had ended, from 1; after a fit, fits that had.
        step: Global step.
        process_bytes: Resident memory of this process.
        left_bytes: What the machine, or the container's limit, could still give; None where memory
            has not grown since that was read.
        current_bytes: Held by tensors, by device.
        peak_bytes: The most so far, by device.
        kept: Collections of tensors that callbacks, the model and the script's modules hold, those
            that grew most first; likewise empty where memory has not grown.
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
