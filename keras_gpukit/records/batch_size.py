"""Results of a batch size search: which sizes fit, and how fast each one trains."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from keras_gpukit.records.diagnosis import Rate
from keras_gpukit.records.displayed import Displayed
from keras_gpukit.records.memory import Execution

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
        return min((each.batch_size for each in self.trials if not each.fits), default=None)

    @property
    def largest_passed(self) -> int | None:
        """Largest batch size that fits, as do all smaller sizes tried; None without any."""
        failed = self.smallest_failed
        passed = (each.batch_size for each in self.by_size if each.fits)
        return max((each for each in passed if failed is None or each < failed), default=None)

    @property
    def by_size(self) -> tuple[BatchSizeTrial, ...]:
        """One trial per batch size, the smallest first.

        Trials of the same batch size are merged. A size that failed in one of its trials does not
        fit. The merged peak is the highest one, the merged rate the last one that was measured.
        """
        sizes = sorted({each.batch_size for each in self.trials})
        return tuple(_merged([each for each in self.trials if each.batch_size == s]) for s in sizes)


def _merged(trials: list[BatchSizeTrial]) -> BatchSizeTrial:
    return BatchSizeTrial(
        trials[0].batch_size,
        all(each.fits for each in trials),
        max((each.peak_bytes for each in trials if each.peak_bytes is not None), default=None),
        next((each.rate for each in reversed(trials) if each.rate is not None), None),
        next((each.note for each in trials if each.note), ""),
    )
