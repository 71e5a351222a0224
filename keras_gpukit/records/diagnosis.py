"""What a model would gain if its input were free."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from keras_gpukit.records.displayed import Displayed
from keras_gpukit.records.finding import Saving

Cause = Literal["interpreter lock", "all cores busy", "nothing ahead"]


@dataclass(frozen=True)
class Rate:
    """A rate that was measured in several rounds.

    The interval holds the true median with a probability of at least 95 %, whatever the
    distribution. Of five rounds or fewer it is their whole range, whose confidence is lower: 94 %
    at five, 75 % at three.

    Attributes:
        median: The median of the rounds.
        low: Lower end of the interval.
        high: Upper end.
        unit: What is counted.
    """

    median: float
    low: float
    high: float
    unit: str = "batches/s"


@dataclass(frozen=True)
class Round:
    """One round of measuring: each kind once, one right after the other.

    Attributes:
        data_only: Batches a second that the pipeline gives when nothing is done with them.
        actual: Batches a second that the model trains on from the pipeline.
        compute_only: Batches a second that the model trains on from memory.
        cores_busy_fraction: Share of the time that this process' cores worked during `actual`, 0
            to 1.
        gil_wait_s: How late, in the median, a Python thread that slept got going again then.
    """

    data_only: float
    actual: float
    compute_only: float
    cores_busy_fraction: float | None = None
    gil_wait_s: float | None = None


@dataclass(frozen=True)
class Contention:
    """How far making batches and training slow each other down.

    Attributes:
        shortfall: How far the actual rate is below the lower one of the two alone, as a share of
            that, with its interval.
        cause: What slows them down; None where none of these was recognised. "interpreter lock":
            Python code that makes batches holds the lock that the training thread needs too.
            "all cores busy": as it says. "nothing ahead": no batch is prepared while the model
            trains.
        cores_busy_fraction: Share of the time that this process' cores worked, 0 to 1.
        gil_wait_s: How late a Python thread that slept got going again.
    """

    shortfall: Rate
    cause: Cause | None
    cores_busy_fraction: float | None
    gil_wait_s: float | None


@dataclass(frozen=True)
class Diagnosis(Displayed):
    """How fast a model's input, its computing, and both together go.

    Attributes:
        data_only: Rate of the pipeline when nothing is done with its batches.
        compute_only: Rate of the train step on batches in memory.
        actual: Rate of `fit`.
        examples_per_batch: Mean number of examples in a batch.
        ceiling_gain: The ratio of the compute-only to the actual rate: of steps alone, without
            all else that a run does. None if none can be separated from the noise, or the rates
            contradict each other.
        ceiling_interval: The ratio of compute-only to actual rate, with its interval, whether or
            not it is a gain.
        contention: Present where the actual rate is lower than either alone explains.
        rounds: What it is all made from.
        spent_s: Wall time of the whole diagnosis, in seconds.
        saving: What a run whose summary was given would save if input were free; None without one,
            or where nothing can be separated from the noise.
        is_contradictory: Whether training got batches faster than the pipeline alone gives them.
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
