"""What was tried on an input pipeline, and what it brought."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from keras_gpukit.records.diagnosis import Rate

Ending = Literal["nothing left to try", "the model is no faster", "time ran out"]


@dataclass(frozen=True)
class Trial:
    """One change that was tried.

    Attributes:
        change: Stable identifier, such as "parallel-map".
        description: The change in words.
        gain: Rate with the change over the rate without it; None where it was not measured.
        low: Lower end of the gain's 95 % interval.
        high: Upper end.
        kept: Whether the tuned pipeline has it.
        note: Why it was not kept or not measured, or what to know of it; "" where there is nothing.
    """

    change: str
    description: str
    gain: float | None = None
    low: float | None = None
    high: float | None = None
    kept: bool = False
    note: str = ""


@dataclass(frozen=True)
class TuningRecord:
    """What tuning an input pipeline found.

    Attributes:
        trials: What was tried, in order.
        rate: How fast the pipeline as it came gives batches when nothing is done with them.
        tuned_rate: The same of the tuned pipeline.
        compute_rate: How fast the model trains on batches in memory; None without a model.
        gain: The tuned rate over the first; 1.0 where nothing was kept.
        low: Lower end of the gain's 95 % interval.
        high: Upper end.
        advice: What was not changed, but could be by hand, and what tuning could not leave as it
            was, one thing a line.
        ending: Why tuning ended.
        duration_s: How long it took.
    """

    trials: tuple[Trial, ...]
    rate: Rate
    tuned_rate: Rate
    compute_rate: Rate | None
    gain: float
    low: float
    high: float
    advice: tuple[str, ...]
    ending: Ending
    duration_s: float
