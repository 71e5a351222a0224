"""Whether training changes the model: its losses, weights and updates."""

from __future__ import annotations

from dataclasses import dataclass


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
