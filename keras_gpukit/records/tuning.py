"""Results of tuning an input pipeline: the changes that were tried, and their gains."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from keras_gpukit.records.diagnosis import Rate
from keras_gpukit.records.displayed import Displayed

Ending = Literal["nothing left to try", "the model is no faster", "time ran out"]
CACHE_NOT_ALLOWED = "not allowed: pass cache=True"
"""Note on a cache that is faster, if there is no terminal to ask for permission."""


@dataclass(frozen=True)
class Trial:
    """One change that was tried.

    Attributes:
        gain: Rate with the change divided by the rate without it; None if it was not measured.
        note: Why the change was not kept or not measured, or a remark on it; "" without any.
    """

    change: str
    description: str
    gain: float | None = None
    low: float | None = None
    high: float | None = None
    kept: bool = False
    note: str = ""


@dataclass(frozen=True)
class StageTraits:
    """Properties of a `tf.data` stage that advice on it depends on.

    Attributes:
        function_below: Name of the function of the stage below, if that is a map whose results
            depend on its arguments alone; None otherwise.
        gives_single_elements: Whether its function makes a dataset of one element in each call.
        caches_what_varies: Why the cached elements should differ between epochs; None if they
            should not, or the stage is no cache.
    """

    function: str | None
    function_below: str | None
    is_generator: bool
    is_python: bool
    gives_single_elements: bool
    batch_size: int | None
    shuffle_buffer: int | None
    caches_what_varies: str | None


@dataclass(frozen=True)
class TuningRecord(Displayed):
    """Result of tuning an input pipeline.

    Attributes:
        compute_rate: Rate at which the model trains on batches in memory; None without a model.
        gain: Tuned rate divided by the original one; 1.0 if no change was kept.
        advice: Changes that could be made by hand, and properties of the pipeline that tuning had
            to change, one per line.
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
