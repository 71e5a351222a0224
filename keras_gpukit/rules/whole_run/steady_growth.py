"""Memory that rises until the end of a run: from epoch to epoch, from fit to fit, or over time.

Between epochs no step holds activations, so the memory in use is memory that is kept. The first two
epochs do not count: they trace, fill buffers and caches, and create the optimizer's variables. The
first two fits do not count either, nor does the first step in readings over time.
"""

from __future__ import annotations

import itertools
import statistics
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from keras_gpukit.records.machine import EpochMemory
from keras_gpukit.records.names import HOST_MEMORY, MEMORY_FIGURES, memory_tag
from keras_gpukit.records.run import RunSummary
from keras_gpukit.rules.whole_run.shifts import FEWEST

Period = Literal["epoch", "fit"]
"""Memory is read between epochs or between fits."""
Points = Sequence[tuple[float, float]]
"""Time of each reading, in any unit, and its value; in order of time."""

THIS_PROCESS = "this process"
WARM_UP = 2
FEWEST_EPOCHS = 7
"""Least number of readings: six differences, which must then all be rises. With five, even a random
walk would have a chance of 1 in 32."""
LEAST_PROCESS_BYTES = 32 * 2**20
"""Least total growth of the process. Small healthy runs grew by up to an eighth of it in 40 epochs
(`benchmarks/results/memory_growth.json`); larger ones leave more to Python and the allocator."""
LEAST_DEVICE_BYTES = 16 * 2**20
"""Least total growth on a device. Allocators count exactly; the same healthy runs grew by less."""
LEAST_RATIO, LEAST_BYTES = 1.25, 256 * 2**20
"""Least growth over time, where the readings are of any moment of an epoch; our choice."""
FAR = 10
"""How many times as long a run may be without filling the memory, for its growth to be left out;
our choice."""
_STILL = 0.5
"""Least growth rate in the last third, as a share of the mean rate."""
# Medians of pieces leave out the noise, which is large between one reading and the next.
_PIECES = 9


@dataclass(frozen=True)
class Growth:
    """Memory that grew until the end of a run.

    Attributes:
        where: "this process", or a device such as "GPU:0".
        left_bytes: Bytes still available at the end; None if unknown.
        steps: Steps over which it grew; None if it was read between epochs or fits.
        per_period_bytes: Growth per epoch, or per fit; None if unknown.
        periods: Epochs of the run, or fits of the same callback; None if the growth per period is
            unknown.
        period: Whether `per_period_bytes` and `periods` count an "epoch" or a "fit".
    """

    where: str
    before_bytes: float
    after_bytes: float
    left_bytes: float | None
    steps: int | None = None
    per_period_bytes: float | None = None
    periods: int | None = None
    period: Period = "epoch"

    @property
    def grown_bytes(self) -> float:
        """Total growth, in bytes."""
        return self.after_bytes - self.before_bytes

    @property
    def periods_left(self) -> int | None:
        """Whole epochs or fits until nothing is left, at this rate; None if unknown or far."""
        if self.left_bytes is None or not self.per_period_bytes or self.is_far:
            return None
        return int(self.left_bytes / self.per_period_bytes)

    @property
    def is_far(self) -> bool:
        """Whether a run ten times as long as this one would not fill what is left."""
        is_known = self.left_bytes is not None and self.periods is not None
        return is_known and self.urgency < 1 / FAR

    @property
    def urgency(self) -> float:
        """Growth of another run as long as this one, over the bytes left; 0 if unknown."""
        if self.left_bytes is None:
            return 0.0
        needed = self.grown_bytes
        if self.per_period_bytes is not None and self.periods is not None:
            needed = self.per_period_bytes * self.periods
        return needed / max(self.left_bytes, 1.0)


def readings_of(summary: RunSummary, period: Period) -> tuple[EpochMemory, ...]:
    """Returns the readings after epochs, or after fits."""
    if summary.memory is None:
        return ()
    return summary.memory.epochs if period == "epoch" else summary.memory.fits


def growths_between(summary: RunSummary, period: Period) -> list[Growth] | None:
    """Returns all memory, of the process or a device, that grows from epoch to epoch or fit to fit.

    If the memory that a device holds between epochs does not grow, its peak may, for example when
    batches become larger and larger. None if there are too few readings.
    """
    readings = [reading for reading in readings_of(summary, period) if reading.epoch > WARM_UP]
    if len(readings) < FEWEST_EPOCHS:
        return None
    last, limits = readings[-1], {pool.device: pool.limit_bytes for pool in summary.allocators}
    left = [reading.left_bytes for reading in readings if reading.left_bytes is not None]

    def growth(
        where: str, values: Iterable[int | None], least: float, left_bytes: int | None
    ) -> Growth | None:
        points = zip((reading.epoch for reading in readings), values, strict=True)
        line = steady_rise([(when, value) for when, value in points if value is not None], least)
        if line is None:
            return None
        return Growth(where, line[1], line[2], left_bytes, None, line[0], last.epoch, period)

    process = (reading.process_bytes for reading in readings)
    found = [growth(THIS_PROCESS, process, LEAST_PROCESS_BYTES, left[-1] if left else None)]
    for device, peak_bytes in last.peak_bytes.items():
        limit_bytes = limits.get(device)
        left_bytes = None if limit_bytes is None else max(limit_bytes - peak_bytes, 0)
        held = (reading.current_bytes.get(device) for reading in readings)
        peaks = (reading.peak_bytes.get(device) for reading in readings)
        found.append(
            growth(device, held, LEAST_DEVICE_BYTES, left_bytes)
            or growth(f"{device} at its peak", peaks, LEAST_DEVICE_BYTES, left_bytes)
        )
    return [rise for rise in found if rise]


def growths_over_time(summary: RunSummary) -> list[Growth] | None:
    """Returns the memory that grew steadily until the end, by readings over time; None if few."""
    tags = {HOST_MEMORY: THIS_PROCESS} | {
        memory_tag(pool.device, MEMORY_FIGURES[0]): pool.device for pool in summary.allocators
    }
    left_bytes: dict[str, float | None] = {
        pool.device: pool.limit_bytes - pool.current_bytes
        for pool in summary.allocators
        if pool.limit_bytes
    }
    left_bytes[THIS_PROCESS] = summary.host.memory_available_min_bytes if summary.host else None
    found = None
    for series in summary.series:
        # The first step takes extra memory while it traces.
        begin = sum(step == series.step[0] for step in series.step)
        if series.tag not in tags or len(series.mean) - begin < FEWEST:
            continue
        found, where = found or [], tags[series.tag]
        line = steady_rise(
            list(zip(series.elapsed_s[begin:], series.mean[begin:], strict=True)), LEAST_BYTES
        )
        if line is not None and line[2] >= LEAST_RATIO * line[1]:
            steps = max(series.step[-1] - series.step[begin] + 1, 1)
            found.append(Growth(where, line[1], line[2], left_bytes.get(where), steps))
    return found


def steady_rise(points: Points, least: float) -> tuple[float, float, float] | None:
    """Returns the line through values that rise steadily until the end, by `least` or more.

    It is the slope (Theil-Sen, the median of the slopes between all pairs), and the line's values
    at the first and the last reading; None for other values.
    """
    if len(points) < FEWEST_EPOCHS or not rises_evenly(points):
        return None
    slope = statistics.median(
        (later - value) / (then - when)
        for (when, value), (then, later) in itertools.combinations(points, 2)
    )
    origin = statistics.median(value - slope * when for when, value in points)
    first, last = points[0][0], points[-1][0]
    since, value = points[-(len(points) // 3) - 1]
    goes_on = points[-1][1] - value >= _STILL * slope * (last - since)
    if slope * (last - first) < least or not goes_on:
        return None
    return slope, origin + slope * first, origin + slope * last


def rises_evenly(points: Points) -> bool:
    """Whether values rise from each ninth of their time to the next, but for a small fall.

    Memory of a healthy process often is a random walk: each reading is the previous one, plus or
    minus a little, so that it strays far from its start. Such a walk passes in 1 of 64 cases at
    most, by Wilcoxon's one-sided signed-rank test of the differences between the medians of the
    ninths (Wilcoxon 1945, "Individual Comparisons by Ranking Methods"): of six differences none may
    be a fall, of seven only the smallest one, of eight only one of the two smallest.
    """
    begin, end = points[0][0], points[-1][0]
    pieces: defaultdict[int, list[float]] = defaultdict(list)
    for place, (when, value) in enumerate(points):
        # All last equally long: readings may be frequent at first and rare later.
        at = place if len(points) <= _PIECES else int(_PIECES * (when - begin) / (end - begin))
        pieces[min(at, _PIECES - 1)].append(value)
    levels = [statistics.median(piece) for piece in pieces.values()]
    steps = [after - before for before, after in itertools.pairwise(levels)]
    # Among steps of equal size, falls come last.
    ranked = sorted(steps, key=lambda step: (abs(step), step < 0))
    fallen = sum(rank for rank, step in enumerate(ranked, start=1) if step <= 0)
    return fallen <= len(steps) - 6
