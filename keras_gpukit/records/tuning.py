"""Results of trials: rates, diagnoses, tuned inputs, batch sizes and faster trainings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from keras_gpukit.records import Displayed
from keras_gpukit.records.finding import Change, Finding, Saving
from keras_gpukit.records.memory import Execution
from keras_gpukit.records.names import SCHEMA

ContentionCause = Literal["interpreter lock", "all cores busy", "nothing ahead"]


@dataclass(frozen=True)
class Rate:
    """A rate or a ratio that was measured in several rounds.

    The interval contains the true median with a probability of at least 95 %, for any distribution.
    With five rounds or fewer, the interval is their whole range and the probability is lower: 94 %
    with five, 75 % with three.

    Attributes:
        unit: Such as "batches/s", "examples/s" or "times".
    """

    median: float
    low: float
    high: float
    unit: str = "batches/s"


@dataclass(frozen=True)
class Round:
    """One round of measurements: each kind once, in direct succession.

    Attributes:
        gil_wait_s: Mean delay until a sleeping Python thread ran again while `actual` was
            measured.
    """

    data_only: float
    actual: float
    compute_only: float
    cores_busy_fraction: float | None = None
    gil_wait_s: float | None = None


@dataclass(frozen=True)
class Contention:
    """How much making batches and training slow each other down.

    Attributes:
        shortfall: How far the actual rate is below the lower of the two separate rates, as a share
            of it.
        cause: Cause of the slowdown; None if none of these was recognized. "interpreter lock":
            Python code that makes batches holds the GIL, which the training thread needs too. "all
            cores busy": no core is free. "nothing ahead": no batch is prepared while the model
            trains.
    """

    shortfall: Rate
    cause: ContentionCause | None
    cores_busy_fraction: float | None
    gil_wait_s: float | None


@dataclass(frozen=True)
class Diagnosis(Displayed):
    """Rates of a model's input, of its computation, and of both together.

    Attributes:
        data_only: Rate of the input pipeline alone.
        compute_only: Rate of the training step on batches in memory.
        actual: Rate of `fit`.
        ceiling_gain: Ratio of the compute-only rate to the actual rate. It covers the steps only,
            not everything else that a run does. None if the gain is within the noise or the rates
            contradict each other.
        ceiling_interval: Ratio with its interval, whether or not it is a gain.
        saving: Time that a given run would save if its input took no time; None if no run's summary
            was given or the gain is within the noise.
        is_contradictory: Whether training got batches faster than the pipeline alone produces them.
    """

    data_only: Rate
    compute_only: Rate
    actual: Rate
    ceiling_gain: float | None
    ceiling_interval: Rate
    contention: Contention | None
    rounds: tuple[Round, ...]
    examples_per_batch: float | None = None
    spent_s: float | None = None
    saving: Saving | None = None
    is_contradictory: bool = False


SearchEnding = Literal["nothing left to try", "the model is no faster", "time ran out"]
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
    ending: SearchEnding
    duration_s: float


BatchSizeEnding = Literal["nothing left to try", "time ran out", "not even one example fits"]


@dataclass(frozen=True)
class BatchSizeTrial:
    """A batch size that was tried.

    Attributes:
        note: Why the trial failed, if the batch size did not fit; "" otherwise.
    """

    batch_size: int
    fits: bool
    peak_bytes: int | None = None
    rate: Rate | None = None
    note: str = ""


@dataclass(frozen=True)
class BatchSizeSearch(Displayed):
    """Result of `find_batch_size`.

    Attributes:
        largest: Largest batch size that fits with a margin; None if the device's memory limit is
            unknown or not even one example fits.
        fastest: Smallest batch size that is about as fast as the fastest one tried, input included;
            None if no rate was measured.
        margin: How far `largest` is below the largest batch size that passed a trial, as a share.
        input_rate: Examples per second of the input pipeline alone; None if it is too fast to be
            measured.
        limited_by_input: Whether the input delivers fewer examples per second than the fastest
            batch size trains from memory.
    """

    largest: int | None
    fastest: int | None
    trials: tuple[BatchSizeTrial, ...]
    margin: float
    limit_bytes: int | None
    predicted_largest: int | None
    input_rate: Rate | None
    limited_by_input: bool | None
    most: int
    most_because: str
    unlimited_because: str | None
    isolated: bool
    execution: Execution
    ending: BatchSizeEnding
    duration_s: float

    @property
    def smallest_failed(self) -> int | None:
        """Smallest batch size that did not fit; None if all of them did."""
        return min((trial.batch_size for trial in self.trials if not trial.fits), default=None)

    @property
    def largest_passed(self) -> int | None:
        """Largest batch size that fits, as do all smaller sizes tried; None without any."""
        failed = self.smallest_failed
        passed = (trial.batch_size for trial in self.by_size if trial.fits)
        return max((size for size in passed if failed is None or size < failed), default=None)

    @property
    def by_size(self) -> tuple[BatchSizeTrial, ...]:
        """One trial per batch size, the smallest first.

        Trials of the same batch size are merged. A size that failed in one of its trials does not
        fit. The merged peak is the highest one, the merged rate the last one that was measured.
        """
        sizes = sorted({trial.batch_size for trial in self.trials})
        return tuple(
            _merged([trial for trial in self.trials if trial.batch_size == s]) for s in sizes
        )


def _merged(trials: list[BatchSizeTrial]) -> BatchSizeTrial:
    return BatchSizeTrial(
        trials[0].batch_size,
        all(trial.fits for trial in trials),
        max((trial.peak_bytes for trial in trials if trial.peak_bytes is not None), default=None),
        next((trial.rate for trial in reversed(trials) if trial.rate is not None), None),
        next((trial.note for trial in trials if trial.note), ""),
    )


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
