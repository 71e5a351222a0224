"""Changes of a run's figures over time: their time series, and where they shift."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

ShiftKind = Literal["level", "drift"]


@dataclass(frozen=True)
class Series:
    """Time series of one figure over a run, in at most 128 points of equally many readings.

    Attributes:
        tag: TensorBoard tag of the figure, such as "step/time_ms"; the unit is the tag's last part.
        elapsed_s: Seconds since the run began, at the end of each point.
        weight: Total weight of the readings in each point's mean: number of steps for figures of
            steps, number of readings otherwise.
    """

    tag: str
    step: tuple[int, ...]
    elapsed_s: tuple[float, ...]
    mean: tuple[float, ...]
    weight: tuple[float, ...]

    def __post_init__(self) -> None:
        """Checks the lengths of columns, which may have been read from a damaged file.

        Raises:
            ValueError: If the columns differ in length.
        """
        if len({len(each) for each in (self.step, self.elapsed_s, self.mean, self.weight)}) > 1:
            raise ValueError(f"The columns of the series {self.tag!r} differ in length.")


@dataclass(frozen=True)
class Shift:
    """A lasting change of one figure within a run.

    Attributes:
        series: TensorBoard tag of the figure, such as "step/time_ms".
        kind: "level" for a change from one point to the next; "drift" for a gradual change.
        step: First global step after the change; for a drift, the first step of it.
        elapsed_s: Seconds from the start of the run to the change; for a drift, to its start.
        before: Median of the figure since the previous change; for a drift, its first value.
        after: Median of the figure until the next change; for a drift, its last value.
        end_step: Global step at the end of the new level; for a drift, at its end.
        end_s: Seconds from the start of the run to `end_step`.
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
