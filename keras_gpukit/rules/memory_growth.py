"""Memory that grew until the end of a run: how much, how fast, and what is left."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

from keras_gpukit.records.names import HOST_MEMORY, MEMORY_FIGURES, memory_tag
from keras_gpukit.records.run import RunSummary
from keras_gpukit.records.shift import Series, Shift
from keras_gpukit.rules.change_points import FEWEST
from keras_gpukit.rules.random_walks import MOST_CHANCE, chance_of_rise
from keras_gpukit.rules.shifts import series_of, shifts_in

LEAST_RATIO = 1.25
LEAST_BYTES = 256 * 2**20
THIS_PROCESS = "this process"
Turn = Literal["epoch", "fit"]
"""Between which memory is read."""


@dataclass(frozen=True)
class Growth:
    """Memory that grew until the end of a run.

    Attributes:
        where: "this process", or a device such as "GPU:0".
        before_bytes: In use where it began to grow.
        after_bytes: In use in the end.
        left_bytes: What there still was in the end; None where that is unknown.
        steps: Steps in which it grew; None where it was read by epochs or fits.
        per_turn_bytes: How much it grew by in an epoch, or in a fit; None where it is not known.
        turns: Epochs of the run, or fits of the same callback; None likewise.
        turn: Which of the two.
    """

    where: str
    before_bytes: float
    after_bytes: float
    left_bytes: float | None
    steps: int | None = None
    per_turn_bytes: float | None = None
    turns: int | None = None
    turn: Turn = "epoch"

    @property
    def grown_bytes(self) -> float:
        """By how much it grew."""
        return self.after_bytes - self.before_bytes

    @property
    def turns_left(self) -> int | None:
        """Whole epochs or fits after which nothing is left, at this rate; None if unknown."""
        if self.left_bytes is None or not self.per_turn_bytes:
            return None
        return int(self.left_bytes / self.per_turn_bytes)

    @property
    def urgency(self) -> float:
        """What a run as long again would need of what is left; 0 where that is unknown."""
        if self.left_bytes is None:
            return 0.0
        needed = self.grown_bytes
        if self.per_turn_bytes is not None and self.turns is not None:
            needed = self.per_turn_bytes * self.turns
        return needed / max(self.left_bytes, 1.0)


def has_enough_readings(summary: RunSummary) -> bool:
    """Whether memory was read often enough over time."""
    summary = _after_first_step(summary)
    return any(_is_long(summary, tag) for tag, _ in _tags(summary))


def growths_over_time(summary: RunSummary) -> Iterator[Growth]:
    """Yields the memory that grew gradually until the end, by readings of each second."""
    summary = _after_first_step(summary)
    for tag, where in _tags(summary):
        if not _is_long(summary, tag):
            continue
        for shift in shifts_in(summary, tag)[-1:]:
            grown = Growth(
                where,
                shift.before,
                shift.after,
                _left_bytes(summary, where),
                steps=max(shift.end_step - shift.step + 1, 1),
            )
            is_large = grown.grown_bytes >= LEAST_BYTES
            is_large = is_large and shift.after >= LEAST_RATIO * shift.before
            goes_on = shift.kind == "drift" and shift.end_s >= _end_s(summary, tag)
            if goes_on and is_large and _is_no_walk(summary, tag, shift):
                yield grown


def _after_first_step(summary: RunSummary) -> RunSummary:
    """The series of memory without the first step, which takes memory as long as it traces."""
    tags = {tag for tag, _ in _tags(summary)}
    of_memory = (each for each in summary.series if each.tag in tags)
    return replace(summary, series=tuple(map(_without_first_step, of_memory)))


def _without_first_step(series: Series) -> Series:
    begin = sum(step == series.step[0] for step in series.step)
    return Series(
        series.tag,
        series.step[begin:],
        series.elapsed_s[begin:],
        series.mean[begin:],
        series.weight[begin:],
    )


def _tags(summary: RunSummary) -> Iterator[tuple[str, str]]:
    """The series of memory, and whose it is."""
    yield HOST_MEMORY, THIS_PROCESS
    for each in summary.allocators:
        yield memory_tag(each.device, MEMORY_FIGURES[0]), each.device


def _is_long(summary: RunSummary, tag: str) -> bool:
    series = series_of(summary, tag)
    return series is not None and len(series.mean) >= FEWEST


def _is_no_walk(summary: RunSummary, tag: str, drift: Shift) -> bool:
    """Whether its drift, which leads to the series' end, rises as no random walk does."""
    series = series_of(summary, tag)
    if series is None:
        return False
    readings = zip(series.elapsed_s, series.mean, strict=True)
    since = [value for elapsed_s, value in readings if elapsed_s > drift.elapsed_s]
    return chance_of_rise(since) <= MOST_CHANCE


def _end_s(summary: RunSummary, tag: str) -> float:
    series = series_of(summary, tag)
    return series.elapsed_s[-1] if series is not None else 0.0


def _left_bytes(summary: RunSummary, where: str) -> float | None:
    if where == THIS_PROCESS:
        return summary.host.memory_available_min_bytes if summary.host else None
    left = (
        each.limit_bytes - each.current_bytes
        for each in summary.allocators
        if each.device == where and each.limit_bytes
    )
    return next(left, None)
