"""Memory that grew until the end of a run: how much, how fast, and what is left."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

from keras_gpukit.records.names import HOST_MEMORY, MEMORY_FIGURES, memory_tag
from keras_gpukit.records.run import RunSummary
from keras_gpukit.records.shift import Series, Shift
from keras_gpukit.rules.slowdown.change_points import FEWEST
from keras_gpukit.rules.slowdown.random_walks import MOST_CHANCE, chance_of_rise
from keras_gpukit.rules.slowdown.shifts import series_of, shifts_in

LEAST_RATIO = 1.25
LEAST_BYTES = 256 * 2**20
THIS_PROCESS = "this process"
Turn = Literal["epoch", "fit"]
"""Memory is read between epochs or between fits."""


@dataclass(frozen=True)
class Growth:
    """Memory that grew until the end of a run.

    Attributes:
        where: "this process", or a device such as "GPU:0".
        before_bytes: Bytes in use when the growth began.
        after_bytes: Bytes in use at the end.
        left_bytes: Bytes still available at the end; None if unknown.
        steps: Steps over which it grew; None if it was read between epochs or fits.
        per_turn_bytes: Growth per epoch, or per fit; None if unknown.
        turns: Epochs of the run, or fits of the same callback; None if the growth per epoch or fit
            is unknown.
        turn: Whether `per_turn_bytes` and `turns` count an "epoch" or a "fit".
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
        """Total growth, in bytes."""
        return self.after_bytes - self.before_bytes

    @property
    def turns_left(self) -> int | None:
        """Whole epochs or fits until nothing is left, at this rate; None if unknown."""
        if self.left_bytes is None or not self.per_turn_bytes:
            return None
        return int(self.left_bytes / self.per_turn_bytes)

    @property
    def urgency(self) -> float:
        """Growth of another run as long as this one, over the bytes left; 0 if unknown."""
        if self.left_bytes is None:
            return 0.0
        needed = self.grown_bytes
        if self.per_turn_bytes is not None and self.turns is not None:
            needed = self.per_turn_bytes * self.turns
        return needed / max(self.left_bytes, 1.0)


def has_enough_readings(summary: RunSummary) -> bool:
    """Whether any memory series has enough readings over time."""
    return any(True for _ in _long_series(summary))


def growths_over_time(summary: RunSummary) -> Iterator[Growth]:
    """Yields the memory that grew gradually until the end, from one reading per second."""
    for series, where in _long_series(summary):
        for shift in shifts_in(replace(summary, series=(series,)), series.tag)[-1:]:
            grown = Growth(
                where,
                shift.before,
                shift.after,
                _left_bytes(summary, where),
                steps=max(shift.end_step - shift.step + 1, 1),
            )
            is_large = grown.grown_bytes >= LEAST_BYTES
            is_large = is_large and shift.after >= LEAST_RATIO * shift.before
            goes_on = shift.kind == "drift" and shift.end_s >= series.elapsed_s[-1]
            if goes_on and is_large and _is_no_walk(series, shift):
                yield grown


def _without_first_step(series: Series) -> Series:
    """Returns a series without the first step, which takes extra memory while it traces."""
    begin = sum(step == series.step[0] for step in series.step)
    return Series(
        series.tag,
        series.step[begin:],
        series.elapsed_s[begin:],
        series.mean[begin:],
        series.weight[begin:],
    )


def _long_series(summary: RunSummary) -> Iterator[tuple[Series, str]]:
    """Yields the memory series with enough points after the first step, and where they belong."""
    tags = [(HOST_MEMORY, THIS_PROCESS)]
    tags += [
        (memory_tag(each.device, MEMORY_FIGURES[0]), each.device) for each in summary.allocators
    ]
    for tag, where in tags:
        series = series_of(summary, tag)
        if series is None:
            continue
        series = _without_first_step(series)
        if len(series.mean) >= FEWEST:
            yield series, where


def _is_no_walk(series: Series, drift: Shift) -> bool:
    """Whether a drift up to the series' end is very unlikely to be a random walk."""
    readings = zip(series.elapsed_s, series.mean, strict=True)
    since = [reading for reading in readings if reading[0] > drift.elapsed_s]
    return chance_of_rise(since) <= MOST_CHANCE


def _left_bytes(summary: RunSummary, where: str) -> float | None:
    if where == THIS_PROCESS:
        return summary.host.memory_available_min_bytes if summary.host else None
    left = (
        each.limit_bytes - each.current_bytes
        for each in summary.allocators
        if each.device == where and each.limit_bytes
    )
    return next(left, None)
