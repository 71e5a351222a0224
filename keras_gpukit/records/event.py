"""Events of a run: epochs and the like, hangs, series and their shifts, and what it learns."""

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
        """Checks the lengths of columns, which may have been read from a damaged file."""
        if len({len(column) for column in (self.step, self.elapsed_s, self.mean, self.weight)}) > 1:
            raise ValueError(f"The columns of the series {self.tag!r} differ in length.")


@dataclass(frozen=True)
class Shift:
    """A lasting change of one figure within a run.

    Attributes:
        series: TensorBoard tag of the figure, such as "step/time_ms".
        kind: "level" for a change from one point to the next; "drift" for a gradual change from the
            first third of the run to the last.
        step: First global step after the change; for a drift, after the first third.
        elapsed_s: Seconds from the start of the run to the change, or to the end of its first
            third.
        before: Median of the figure since the previous change, or in the first third.
        after: Median of the figure until the next change, or in the last third.
        end_s: Seconds from the start of the run to the end of the new level, or of the run.
    """

    series: str
    unit: str
    kind: ShiftKind
    step: int
    elapsed_s: float
    before: float
    after: float
    end_s: float


@dataclass(frozen=True)
class NonFinite:
    """A loss that is NaN or infinite, and has been so at the end of every epoch since.

    Attributes:
        name: Name of the loss in Keras' logs, such as "loss" or "val_loss".
        first_step: First global step that it may have started at; None if only the epoch is known.
    """

    name: str
    value: str
    epoch: int
    first_step: int | None = None
    last_step: int | None = None


@dataclass(frozen=True)
class Learning:
    """Losses and weights of a `fit`, as of its latest epoch.

    Weights and the optimizer are read after the first step and after epochs. All counts are of what
    happened between the first and the latest of these readings.

    Attributes:
        read: Number of variables that were read: the smallest ones.
        changed: Whether one of them has changed.
        steps_asked: Steps that an epoch should have; None if neither script nor data say it.
        cut_short: Number of epochs whose data ended before that.
        steps_missing: Steps that these epochs lack.
        accumulation: Steps per update, as `gradient_accumulation_steps` says.
        loss_scale: Factor of dynamic loss scaling at the latest reading; None without it.
    """

    epochs: int = 0
    steps_asked: int | None = None
    cut_short: int = 0
    steps_missing: int = 0
    non_finite: NonFinite | None = None
    lowest_loss: float | None = None
    highest_loss: float | None = None
    trainable: int | None = None
    read: int = 0
    changed: bool | None = None
    finite: bool | None = None
    steps: int = 0
    updates: int | None = None
    accumulation: int = 1
    learning_rate: float | None = None
    loss_scale: float | None = None
    first_loss_scale: float | None = None

    @property
    def updates_due(self) -> int:
        """Number of updates that the steps call for."""
        return self.steps // self.accumulation

    @property
    def skipped(self) -> int | None:
        """Number of updates that loss scaling skipped; None without loss scaling.

        An optimizer whose loss scale has not fallen either skipped nothing or was not used.
        """
        if self.loss_scale is None or self.first_loss_scale is None or self.updates is None:
            return None
        if self.loss_scale >= self.first_loss_scale:
            return 0
        return max(self.updates_due - self.updates, 0)
