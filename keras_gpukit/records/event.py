"""What else happened in a run: epochs, validations, saves and the like, on its time axis."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

EventKind = Literal[
    "epoch",
    "first step",
    "epoch start",
    "validation",
    "callbacks",
    "checkpoint",
    "stood still",
]
"""An epoch; the run's first step, which traces and compiles; starting the pipeline of an epoch;
a validation within `fit`; callbacks at an epoch's end or begin; saving the model or its weights;
the process stopped by a signal, or frozen with its container."""


@dataclass(frozen=True)
class RunEvent:
    """One stretch of time, or several neighbours of a kind that were merged.

    Attributes:
        kind: What took it.
        began_s: When it began, in seconds since the Unix epoch.
        duration_s: Until it ended.
        step: Global step when it ended; None where it is not known.
        number: Of an epoch, counted from 1; of merged ones, the first.
        count: How many were merged.
        spent_s: What merged ones took without the time between them; None for a single one.
    """

    kind: EventKind
    began_s: float
    duration_s: float
    step: int | None = None
    number: int | None = None
    count: int = 1
    spent_s: float | None = None

    @property
    def ended_s(self) -> float:
        """When it ended, in seconds since the Unix epoch."""
        return self.began_s + self.duration_s
