"""What a run is doing, noted while it goes on: all that is known of one whose process is killed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from keras_gpukit.records.steps import Phase

Part = Literal["callbacks", "epoch start", "first step", "steps", "validation", "other"]
"""What a call of `fit`, `evaluate` or `predict` can be doing: "callbacks" between epochs; the
"epoch start", at which its pipeline starts; the "first step", which traces and compiles; "steps";
a "validation" within `fit`; or what Keras does at an epoch's end."""


@dataclass(frozen=True)
class Progress:
    """Where a run is.

    Attributes:
        phase: "fit", "evaluate" or "predict".
        part: What it is doing.
        step: Global step.
        epoch: The epoch under way, counted from 1; None before the first, and outside `fit`.
        epochs: The number of the last epoch; None where it is unknown.
        epoch_steps: Steps of an epoch; None where they are unknown.
    """

    phase: Phase
    part: Part
    step: int
    epoch: int | None = None
    epochs: int | None = None
    epoch_steps: int | None = None
