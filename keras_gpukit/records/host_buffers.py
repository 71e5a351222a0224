"""Host memory that the stages of an input pipeline hold: caches and shuffle buffers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

BufferKind = Literal["cache", "shuffle"]


@dataclass(frozen=True)
class HostBuffer:
    """A pipeline stage that keeps elements in host memory.

    Attributes:
        name: Name of the stage, such as "cache()", "cache() after decode" or "shuffle(10,000)".
        place: Position among the pipeline's stages of its kind, from 0, counted from training back
            to the sources.
        element_bytes: Bytes per element, including TensorFlow's overhead per tensor.
        is_measured: Whether `element_bytes` was measured by tf.data. It is computed from shapes
            otherwise.
        ahead: Elements that pass the stage before the first step, to fill the shuffle buffers after
            it.
    """

    name: str
    kind: BufferKind
    place: int = 0
    elements: int | None = None
    element_bytes: float | None = None
    is_measured: bool = False
    per_step: float | None = None
    ahead: int = 0
    unknown_because: str | None = None

    @property
    def full_bytes(self) -> float | None:
        """Bytes that the stage holds when full; None if unknown."""
        if self.elements is None or self.element_bytes is None:
            return None
        return self.elements * self.element_bytes

    def held_bytes(self, steps: int) -> float | None:
        """Returns the bytes that the stage holds after a number of steps; None if unknown.

        Args:
            steps: Steps of the run. A shuffle buffer is full before the first one ends.
        """
        full_bytes = self.full_bytes
        if full_bytes is None or self.element_bytes is None:
            return None
        if steps == 0 or self.kind == "shuffle":
            return full_bytes if steps else 0.0
        if self.per_step is None:
            return None
        return min(full_bytes, (steps * self.per_step + self.ahead) * self.element_bytes)


@dataclass(frozen=True)
class HostBuffers:
    """All caches and shuffle buffers of a pipeline, and the host memory that is left."""

    buffers: tuple[HostBuffer, ...] = ()
    steps: int = 0
    epoch_steps: int | None = None
    left_bytes: int | None = None
    unknown_because: str | None = None

    @property
    def missing_bytes(self) -> float | None:
        """Bytes that the buffers will still take; None if unknown for one of them."""
        total = 0.0
        for buffer in self.buffers:
            full_bytes, held_bytes = buffer.full_bytes, buffer.held_bytes(self.steps)
            if full_bytes is None or held_bytes is None:
                return None
            total += full_bytes - held_bytes
        return total
