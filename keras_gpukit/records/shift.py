"""How a run's figures changed over time: their series in a few points, and where they shift."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

ShiftKind = Literal["level", "drift"]


@dataclass(frozen=True)
class Series:
    """One figure over a run, in at most 128 points of equally many readings.

    Attributes:
        tag: Its TensorBoard tag, such as "step/time_ms"; the unit is the tag's last part.
        step: Global step at the end of each point.
        elapsed_s: Time since the run began, at the end of each point.
        mean: Mean of the readings in each point.
        weight: What the mean is weighted with, in all: steps, of figures of steps; else readings.
    """

    tag: str
    step: tuple[int, ...]
    elapsed_s: tuple[float, ...]
    mean: tuple[float, ...]
    weight: tuple[float, ...]

    def __post_init__(self) -> None:
        """Checks what may have been read from a damaged file.

        Raises:
            ValueError: If the columns differ in length.
        """
        if len({len(each) for each in (self.step, self.elapsed_s, self.mean, self.weight)}) > 1:
            raise ValueError(f"The columns of the series {self.tag!r} differ in length.")


@dataclass(frozen=True)
class Shift:
    """A lasting change of one figure within a run.

    Attributes:
        series: The figure's TensorBoard tag, such as "step/time_ms".
        unit: Of the two levels: "ms", "%", "B" and so on.
        kind: "level" where it changed from one point to the next; "drift" where it did gradually.
        step: The first global step after the change; of a drift, after its begin.
        elapsed_s: Time from the run's start until then.
        before: The figure's median since the change before; of a drift, where it starts.
        after: Its median until the next change; of a drift, where it ends.
        end_step: The global step at the end of the level after it, or of the drift.
        end_s: Time from the run's start until then.
    """

    series: str
    unit: str
    kind: ShiftKind
    step: int
    elapsed_s: float
    before: float
    after: float
    end_step: int
    end_s: float
