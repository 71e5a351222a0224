"""Which batch sizes were tried, which of them fit, and how fast each trains."""

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
        batch_size: Examples in a batch.
        fits: Whether training came to its end; False where memory ran out.
        peak_bytes: The most that the device's allocator had in use; None where none keeps count, or
            memory ran out.
        rate: Examples per second from memory, without the input; None where it was not measured.
        note: How it ended, if it did not fit; "" otherwise.
    """

    batch_size: int
    fits: bool
    peak_bytes: int | None = None
    rate: Rate | None = None
    note: str = ""


@dataclass(frozen=True)
class BatchSizeSearch(Displayed):
    """What `find_batch_size` found.

    Attributes:
        largest: The largest batch size that fits with a margin; None where that is unknown.
        fastest: The smallest batch size that is about as fast as the fastest that was tried, input
            included; None where no rate was measured.
        trials: What was tried, in order.
        margin: How far `largest` is below the largest batch size that passed a trial, as a share.
        limit_bytes: What the device gives; None where that is unknown.
        predicted_largest: The largest batch size that was predicted to fill the device, before any
            trial; None without a limit or a prediction.
        input_rate: Examples per second that the pipeline gives when nothing is done with them.
        limited_by_input: Whether the input is slower than the fastest batch size from memory; None
            where no rate was measured.
        most: The largest batch size that might be tried.
        most_because: Where that comes from.
        unlimited_because: Why no largest batch size was looked for; None if it was.
        isolated: Whether trials had processes of their own.
        execution: How steps run.
        ending: Why the search ended.
        duration_s: How long it took.
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
        """The smallest batch size that did not fit; None if every one did."""
        return min((each.batch_size for each in self.trials if not each.fits), default=None)

    @property
    def largest_passed(self) -> int | None:
        """The largest batch size that passed its trials, as all smaller ones; None if none did."""
        failed = self.smallest_failed
        passed = (each.batch_size for each in self.by_size if each.fits)
        return max((each for each in passed if failed is None or each < failed), default=None)

    @property
    def by_size(self) -> tuple[BatchSizeTrial, ...]:
        """A trial for each batch size, the smallest first.

        One that failed in any of its trials does not fit; its peak is the highest, its rate the
        last that was measured.
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
