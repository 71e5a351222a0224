"""Results of `tune`: which change of how a model trains makes it faster, and by how much."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from keras_gpukit.records.diagnosis import Rate
from keras_gpukit.records.displayed import Displayed
from keras_gpukit.records.finding import Change, Finding
from keras_gpukit.records.names import SCHEMA
from keras_gpukit.records.tuning import Trial

SpeedupEnding = Literal["nothing left to try", "time ran out", "interrupted"]


@dataclass(frozen=True)
class Promise:
    """Gain that a finding on the unchanged training expects from its change.

    Attributes:
        low: Lowest expected rate with the change divided by the rate without it.
        high: Highest expected one; None if it is unknown.
    """

    code: str
    low: float
    high: float | None


@dataclass(frozen=True)
class TriedChange(Trial):
    """One change that was tried, or several of them together.

    Attributes:
        change: Stable identifier, such as "jit"; several are joined by " + ".
    """

    rate: Rate | None = None
    first_step_s: float | None = None
    promise: Promise | None = None
    lines: tuple[Change, ...] = ()


@dataclass(frozen=True)
class SpeedupSearch(Displayed):
    """Result of `tune`.

    Attributes:
        subject: Name of the script or function that was tuned.
        best: Kept change, or kept changes together, with the highest rate; None without any.
        tolerance: Largest difference of the loss, as a share of it, at which a change is kept.
        by_hand: Most important finding on the unchanged training that costs time and that no change
            helped, so that its advice is left to the user; None without one.
        schema: Version of the layout.
    """

    subject: str
    rate: Rate
    first_step_s: float
    trials: tuple[TriedChange, ...]
    best: TriedChange | None
    tolerance: float
    ending: SpeedupEnding
    duration_s: float
    by_hand: Finding | None = None
    schema: int = SCHEMA
