"""Events of a run on its time axis: epochs, validations, saves and the like; and hangs."""

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


HangKind = Literal["input", "worker", "idle", "work"]
"""Kinds of hangs: the process waits for its input, for another worker, or for input or a device, as
it is idle; or it is in a long part of its work, such as a callback, tracing or computing."""


@dataclass(frozen=True)
class Hang:
    """A time without a step that was much longer than the usual step time.

    Attributes:
        began_s: When the last step before it ended.
        activity: Activity of the process, such as "waiting for input, load (train.py:31)".
        stacks: Python stacks of the training thread and of threads in user code or in the input,
            innermost frames first.
        lasted_s: Time until a step ended; None as long as none has.
        input_place: Function or file that the input waits in, such as "load (train.py:31)"; None if
            it does not, or the place is unknown.
    """

    began_s: float
    step: int
    activity: str
    kind: HangKind
    stacks: tuple[str, ...] = ()
    lasted_s: float | None = None
    input_place: str | None = None
