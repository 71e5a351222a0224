"""Memory that rises until the end of a run: from epoch to epoch, from fit to fit, or over time.

Between epochs no step holds activations, so the memory in use is memory that is kept. The first two
epochs do not count: they trace, fill buffers and caches, and create the optimizer's variables. The
first two fits do not count either, nor does the first step in readings over time.
"""

from __future__ import annotations

import functools
import itertools
import statistics
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from keras_gpukit.records.epoch_memory import EpochMemory
from keras_gpukit.records.names import HOST_MEMORY, MEMORY_FIGURES, memory_tag
from keras_gpukit.records.run import RunSummary
from keras_gpukit.rules.slowdown.levels import FEWEST
from keras_gpukit.rules.slowdown.shifts import series_of

Turn = Literal["epoch", "fit"]
"""Memory is read between epochs or between fits."""
Points = Sequence[tuple[float, float]]
"""Time of each reading, in any unit, and its value; in order of time."""

THIS_PROCESS = "this process"
WARM_UP = 2
FEWEST_READINGS = FEWEST_EPOCHS = 7
"""Least number of readings: two in each third, and six differences, which must then all be rises.
With five, even that would have a chance of 1 in 32."""
MOST_CHANCE = 1 / 64
"""A series counts as growth only if a random walk is at most this likely to rise as evenly; our
choice. Of the walks that `benchmarks/random_walks.py` generates, 0.8 % are mistaken for growth by
epochs and 1.0 % for growth by readings over time. Without this test, 5.6 % and 4.2 % were."""
LEAST_PROCESS_BYTES = 32 * 2**20
"""Least total growth of the process. Small healthy runs grew by up to an eighth of it in 40 epochs
(`benchmarks/memory_growth.py`); larger ones leave more to Python and the system's allocator."""
LEAST_DEVICE_BYTES = 16 * 2**20
"""Least total growth on a device. Allocators count exactly; the same healthy runs grew by less."""
LEAST_RATIO, LEAST_BYTES = 1.25, 256 * 2**20
"""Least growth over time, where the readings are of any moment of an epoch; our choice."""
CLEAR = 4.0
"""Least total growth, in units of the noise around the line; our choice."""
_EVEN = (0.25, 0.75)
"""Range of the share of the growth that comes until the middle third. It is 0.5 on a line, and near
0 or 1 for a jump or for a buffer that fills up."""
_STILL = 0.5
"""Least growth rate in the last fifth, as a share of the mean rate."""
# Medians of pieces leave out the noise, which is large between one reading and the next.
_PIECES = 9


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


def readings_of(summary: RunSummary, turn: Turn) -> tuple[EpochMemory, ...]:
    """Returns the readings after epochs, or after fits."""
    if summary.memory is None:
        return ()
    return summary.memory.epochs if turn == "epoch" else summary.memory.fits


def has_enough(summary: RunSummary, turn: Turn) -> bool:
    """Whether there are readings after enough epochs, or after enough fits."""
    return len(_counted(summary, turn)) >= FEWEST_EPOCHS


def growths_between(summary: RunSummary, turn: Turn) -> Iterator[Growth]:
    """Yields all memory, of the process or a device, that grows from epoch to epoch or fit to fit.

    If the memory that a device holds between epochs does not grow, its peak may, for example when
    batches become larger and larger.
    """
    readings = _counted(summary, turn)
    last = readings[-1]

    def growth(
        where: str, values: list[tuple[int, int | None]], least: float, left_bytes: int | None
    ) -> Growth | None:
        line = steady_rise([each for each in values if each[1] is not None], least)
        if line is None:
            return None
        per_turn, begin, end = line
        return Growth(where, begin, end, left_bytes, None, per_turn, last.epoch, turn)

    process = [(each.epoch, each.process_bytes) for each in readings]
    known = [each.left_bytes for each in readings if each.left_bytes is not None]
    found = [growth(THIS_PROCESS, process, LEAST_PROCESS_BYTES, known[-1] if known else None)]
    limits = {each.device: each.limit_bytes for each in summary.allocators}
    for device, peak_bytes in last.peak_bytes.items():
        limit_bytes = limits.get(device)
        left_bytes = None if limit_bytes is None else max(limit_bytes - peak_bytes, 0)
        held = [(each.epoch, each.current_bytes.get(device)) for each in readings]
        peaks = [(each.epoch, each.peak_bytes.get(device)) for each in readings]
        found.append(
            growth(device, held, LEAST_DEVICE_BYTES, left_bytes)
            or growth(f"{device} at its peak", peaks, LEAST_DEVICE_BYTES, left_bytes)
        )
    yield from filter(None, found)


def has_enough_readings(summary: RunSummary) -> bool:
    """Whether any memory series has enough readings over time."""
    return any(True for _ in _long_series(summary))


def growths_over_time(summary: RunSummary) -> Iterator[Growth]:
    """Yields the memory that grew steadily until the end, from one reading per second."""
    for where, steps, points in _long_series(summary):
        line = steady_rise(points, LEAST_BYTES)
        if line is not None and line[2] >= LEAST_RATIO * line[1]:
            yield Growth(where, line[1], line[2], _left_bytes(summary, where), max(steps, 1))


def steady_rise(
    points: Sequence[tuple[float, float | None]], least: float
) -> tuple[float, float, float] | None:
    """Returns the line through values that rise steadily until the end; None for other values.

    Args:
        points: Epoch, fit or second of each reading, and its value in bytes.
        least: Least total rise, in bytes.

    Returns:
        The slope (Theil-Sen, the median of the slopes between all pairs), and the line's values at
        the first and the last reading.
    """
    known = [(float(when), float(value)) for when, value in points if value is not None]
    if len(known) < FEWEST_READINGS:
        return None
    slope = statistics.median(
        (later - value) / (then - when)
        for (when, value), (then, later) in itertools.combinations(known, 2)
    )
    rise = slope * (known[-1][0] - known[0][0])
    origin = statistics.median(value - slope * when for when, value in known)
    noise = 1.4826 * statistics.median(abs(value - slope * when - origin) for when, value in known)
    if rise < max(least, CLEAR * noise) or not _is_even(known) or not _goes_on(known, slope):
        return None
    if chance_of_rise(known) > MOST_CHANCE:
        return None
    return slope, origin + slope * known[0][0], origin + slope * known[-1][0]


def _is_even(points: Points) -> bool:
    """Whether values rise about as much before their middle as after it."""
    values = [value for _, value in points]
    third = len(values) // 3
    low, high = statistics.median(values[:third]), statistics.median(values[-third:])
    part = (statistics.median(values[third:-third]) - low) / (high - low) if high > low else 0.0
    return _EVEN[0] <= part <= _EVEN[1]


def _goes_on(points: Points, slope: float) -> bool:
    """Whether values still rise in the last fifth, which is at least two readings long."""
    (since, value), (until, last) = points[-max(len(points) // 5, 2) - 1], points[-1]
    return last - value >= _STILL * slope * (until - since)


def chance_of_rise(points: Points) -> float:
    """Returns the chance that a random walk without direction rises at least as much as a series.

    Memory of a healthy process often is such a walk: each reading is the previous one, plus or
    minus a little, so that it strays far from its start. Falls and rises of the same size are
    equally likely, whatever the distribution of the sizes. The test is Wilcoxon's signed-rank test,
    exact and one-sided (Wilcoxon 1945, "Individual Comparisons by Ranking Methods"), of the
    differences between the medians of nine pieces. All pieces last equally long. So if readings are
    frequent at first and rare later, a short fall at first counts no more than one later.
    """
    levels = [statistics.median(piece) for piece in _pieces(points)]
    steps = [after - before for before, after in itertools.pairwise(levels) if after != before]
    # Among steps of equal size, falls come last. That makes their ranks, and so the chance, larger.
    ranked = sorted(steps, key=lambda step: (abs(step), step < 0))
    fallen = sum(rank for rank, step in enumerate(ranked, start=1) if step < 0)
    return float(sum(_ways(len(steps))[: fallen + 1]) / 2 ** len(steps))


def _pieces(points: Points) -> list[list[float]]:
    """Groups the readings into pieces of equal duration; if there are few, each is a piece."""
    if len(points) <= _PIECES:
        return [[value] for _, value in points]
    begin, end = points[0][0], points[-1][0]
    pieces: defaultdict[int, list[float]] = defaultdict(list)
    for when, value in points:
        pieces[min(int(_PIECES * (when - begin) / (end - begin)), _PIECES - 1)].append(value)
    return list(pieces.values())


@functools.cache
def _ways(count: int) -> tuple[int, ...]:
    """Returns in how many ways the ranks of falls among `count` steps add up to 0, 1 and so on."""
    ways = [1]
    for rank in range(1, count + 1):
        longer = ways + [0] * rank
        for total, number in enumerate(ways):
            longer[total + rank] += number
        ways = longer
    return tuple(ways)


def _counted(summary: RunSummary, turn: Turn) -> tuple[EpochMemory, ...]:
    return tuple(each for each in readings_of(summary, turn) if each.epoch > WARM_UP)


def _long_series(summary: RunSummary) -> Iterator[tuple[str, int, Points]]:
    """Yields where memory was read often enough after the first step, its steps and readings."""
    tags = {HOST_MEMORY: THIS_PROCESS} | {
        memory_tag(each.device, MEMORY_FIGURES[0]): each.device for each in summary.allocators
    }
    for tag, where in tags.items():
        series = series_of(summary, tag)
        # The first step takes extra memory while it traces.
        begin = sum(step == series.step[0] for step in series.step) if series else 0
        if series and len(series.mean) - begin >= FEWEST:
            points = zip(series.elapsed_s[begin:], series.mean[begin:], strict=True)
            yield where, series.step[-1] - series.step[begin] + 1, list(points)


def _left_bytes(summary: RunSummary, where: str) -> float | None:
    if where == THIS_PROCESS:
        return summary.host.memory_available_min_bytes if summary.host else None
    left = (
        each.limit_bytes - each.current_bytes
        for each in summary.allocators
        if each.device == where and each.limit_bytes
    )
    return next(left, None)
