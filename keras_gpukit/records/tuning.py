"""What was tried on an input pipeline, and what it brought."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from keras_gpukit.records.diagnosis import Rate
from keras_gpukit.records.displayed import Displayed

Ending = Literal["nothing left to try", "the model is no faster", "time ran out"]
CACHE_NOT_ALLOWED = "not allowed: pass cache=True"
"""The note of a cache that is faster, where there is no terminal to ask in."""


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
class StageTraits:
    """What advice on a stage of a `tf.data` pipeline depends on.

    Attributes:
        function: Name of the function that it calls; None if it calls none.
        function_below: That of the stage below, if that is a map whose results depend on its
            arguments alone.
        is_generator: Whether it is what `from_generator` returns.
        is_python: Whether it calls Python code.
        gives_single_elements: Whether its function makes a dataset of one element each time.
        batch_size: Elements in a batch; None if it makes no batches.
        shuffle_buffer: Elements that it shuffles among; None if it does not shuffle.
        caches_what_varies: Why what it caches should differ between epochs; None if it should not,
            or there is no cache.
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
