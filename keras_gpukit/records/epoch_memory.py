"""Memory in use between epochs or between fits, when no step runs."""

from __future__ import annotations

from dataclasses import dataclass, field

HOST = "host"
"""Location of NumPy arrays. Tensors are on a device, such as "GPU:0"."""


@dataclass(frozen=True)
class Kept:
    """A list, dictionary or the like of tensors that a callback, the model or the script keeps.

    Attributes:
        name: Owner and attribute, such as "Saver.outputs". For a global variable its name, such as
            "losses", or "buffer.items" for an attribute of one.
        where: Location of the tensors: "GPU:0", "CPU:0", or "host" for NumPy arrays.
        module: Script file, such as "train.py", or module, such as "project.data", of the global
            variable; None if a callback or the model keeps the collection.
    """

    name: str
    where: str
    size_bytes: int
    module: str | None = None
    length: int | None = None

    @property
    def label(self) -> str:
        """Name with the module, if there is one."""
        return self.name if self.module is None else f"{self.name} of {self.module}"


@dataclass(frozen=True)
class EpochMemory:
    """Memory in use after an epoch, once all callbacks have returned, or after a fit.

    Attributes:
        epoch: Number of epochs that have ended, from 1. After a fit: number of fits that have
            ended.
        left_bytes: Host memory still available, within the container's limit; None if it was not
            read, as when memory had not grown.
        kept: Collections of tensors that callbacks, the model and the script's modules keep, those
            that grew most first. Empty if they were not read, as when memory had not grown.
    """

    epoch: int
    step: int
    process_bytes: int | None = None
    left_bytes: int | None = None
    current_bytes: dict[str, int] = field(default_factory=dict)
    peak_bytes: dict[str, int] = field(default_factory=dict)
    kept: tuple[Kept, ...] = ()
    tracings: int = 0
    models: int = 0
    models_bytes: int = 0
