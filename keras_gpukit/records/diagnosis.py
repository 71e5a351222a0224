"""Results of `diagnose`: how much faster a model would train if its input took no time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from keras_gpukit.records.displayed import Displayed
from keras_gpukit.records.finding import Saving

Cause = Literal["interpreter lock", "all cores busy", "nothing ahead"]


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
        gil_wait_s: Median delay until a sleeping Python thread ran again while `actual` was
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
    cause: Cause | None
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
