"""Host memory that the stages of an input pipeline hold: caches and shuffle buffers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

BufferKind = Literal["cache", "shuffle"]


@dataclass(frozen=True)
class HostBuffer:
    """A stage that keeps elements in host memory.

    Attributes:
        name: Such as "cache()", "cache() after decode" or "shuffle(10,000)".
        kind: Which of the two.
        place: Among the stages of its kind in the pipeline, from training back to the sources.
        elements: How many it holds when it is full; None where that is unknown.
        element_bytes: What one takes, with what TensorFlow needs for each tensor; None likewise.
        is_measured: Whether that was measured by tf.data, and not computed from shapes.
        per_step: Elements that pass it in a training step; None where that is unknown.
        ahead: Elements that pass it before the first step: those in shuffle buffers after it.
        unknown_because: Why a figure is missing.
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
        """What it holds when it is full."""
        if self.elements is None or self.element_bytes is None:
            return None
        return self.elements * self.element_bytes

    def held_bytes(self, steps: int) -> float | None:
        """What it holds after a number of steps; None where that is unknown.

        Args:
            steps: Of the run; a shuffle buffer is filled before the first one ends.
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
    """All of them, and what the host had left.

    Attributes:
        buffers: In the order in which the pipeline was written.
        steps: Steps of the run until then.
        epoch_steps: Steps in an epoch; None where Keras does not know it.
        left_bytes: What the machine, or the container's limit, could still give.
        unknown_because: Why no stage is known, where none is.
    """

    buffers: tuple[HostBuffer, ...] = ()
    steps: int = 0
    epoch_steps: int | None = None
    left_bytes: int | None = None
    unknown_because: str | None = None

    @property
    def missing_bytes(self) -> float | None:
        """What the buffers are still to take; None where that is unknown for one of them."""
        total = 0.0
        for buffer in self.buffers:
            full_bytes, held_bytes = buffer.full_bytes, buffer.held_bytes(self.steps)
            if full_bytes is None or held_bytes is None:
                return None
            total += full_bytes - held_bytes
        return total
