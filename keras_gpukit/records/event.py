"""Events of a run on its time axis: epochs, validations, saves and the like."""

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
    "hang",
]
"""Kinds of events: an epoch; the run's first step, which traces and compiles; the start of an
epoch's pipeline; a validation within `fit`; callbacks at the start or the end of an epoch; saving
the model or its weights; the process being stopped by a signal or frozen with its container; and a
hang, in which no step ended for long."""


@dataclass(frozen=True)
class RunEvent:
    """One event, or several consecutive events of one kind merged into one.

    Attributes:
        step: Global step when it ended.
        number: Number of the epoch, counted from 1; for merged epochs, that of the first one.
        spent_s: Duration of the merged events without the time between them; None for a single
            event.
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
