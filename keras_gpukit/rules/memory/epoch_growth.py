"""Memory that rises from epoch to epoch or from fit to fit, from readings taken between them.

Between epochs no step holds activations, so the memory in use is memory that is kept. The first two
epochs do not count: they trace, fill buffers and caches, and create the optimizer's variables. The
first two fits do not count either.
"""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from keras_gpukit.records.epoch_memory import EpochMemory
from keras_gpukit.records.run import RunSummary
from keras_gpukit.rules.memory.memory_growth import THIS_PROCESS, Growth, Turn
from keras_gpukit.rules.slowdown.random_walks import FEWEST_READINGS, MOST_CHANCE, chance_of_rise

WARM_UP = 2
FEWEST_EPOCHS = FEWEST_READINGS
"""Least number of readings after the warm-up: two in each third, and enough to exclude a random
walk."""
LEAST_PROCESS_BYTES = 32 * 2**20
"""Least total growth of the process. Small healthy runs grew by up to an eighth of it in 40 epochs
(`benchmarks/memory_growth.py`); larger ones leave more to Python and the system's allocator."""
LEAST_DEVICE_BYTES = 16 * 2**20
"""Least total growth on a device. Allocators count exactly; the same healthy runs grew by less."""
CLEAR = 4.0
"""Least total growth, in units of the noise around the line; our choice."""
_EVEN = (0.25, 0.75)
"""Range of the share of the growth that comes until the middle third. It is 0.5 on a line, and near
0 or 1 for a jump or for a buffer that fills up."""
_STILL = 0.5
"""Least growth rate in the last fifth, as a share of the mean rate."""


@dataclass(frozen=True)
class _Line:
    """A steady rise.

    Attributes:
        per_epoch: Theil-Sen slope, the median of the slopes between all pairs: bytes per epoch, or
            per fit.
        begin: Value at the first reading, in bytes.
        end: Value at the last reading, in bytes.
    """

    per_epoch: float
    begin: float
    end: float


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

    Args:
        summary: A run with enough readings.
        turn: Whether to judge the readings after each "epoch" or after each "fit".
    """
    readings = _counted(summary, turn)
    last = readings[-1]

    def growth(
        where: str, values: list[tuple[int, int | None]], least: float, left_bytes: int | None
    ) -> Growth | None:
        line = steady_rise(values, least)
        if line is None:
            return None
        return Growth(
            where,
            line.begin,
            line.end,
            left_bytes=left_bytes,
            per_turn_bytes=line.per_epoch,
            turns=last.epoch,
            turn=turn,
        )

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


def steady_rise(values: Sequence[tuple[int, int | None]], least: float) -> _Line | None:
    """Returns the line through values that rise steadily until the end; None for other values.

    Of the random walks that `benchmarks/random_walks.py` generates, 0.8 % are mistaken for such a
    line.

    Args:
        values: Number of each epoch or fit that was read, and its value in bytes; None if unknown.
        least: Least total rise, in bytes.
    """
    points = [(float(epoch), float(value)) for epoch, value in values if value is not None]
    if len(points) < FEWEST_EPOCHS:
        return None
    slope = _slope(points)
    rise = slope * (points[-1][0] - points[0][0])
    origin = statistics.median(value - slope * epoch for epoch, value in points)
    deviations = [abs(value - slope * epoch - origin) for epoch, value in points]
    noise = 1.4826 * statistics.median(deviations)
    if rise < max(least, CLEAR * noise) or not _is_even(points) or not _goes_on(points, slope):
        return None
    if chance_of_rise(points) > MOST_CHANCE:
        return None
    return _Line(slope, origin + slope * points[0][0], origin + slope * points[-1][0])


def _slope(points: Sequence[tuple[float, float]]) -> float:
    return statistics.median(
        (later - value) / (then - epoch)
        for (epoch, value), (then, later) in itertools.combinations(points, 2)
    )


def _is_even(points: Sequence[tuple[float, float]]) -> bool:
    """Whether values rise about as much before their middle as after it."""
    values = [value for _, value in points]
    third = len(values) // 3
    low, high = statistics.median(values[:third]), statistics.median(values[-third:])
    if high <= low:
        return False
    part = (statistics.median(values[third:-third]) - low) / (high - low)
    return _EVEN[0] <= part <= _EVEN[1]


def _goes_on(points: Sequence[tuple[float, float]], slope: float) -> bool:
    """Whether values still rise in the last fifth, which is at least two readings long."""
    since, value = points[-max(len(points) // 5, 2) - 1]
    until, last = points[-1]
    return last - value >= _STILL * slope * (until - since)


def _counted(summary: RunSummary, turn: Turn) -> tuple[EpochMemory, ...]:
    return tuple(each for each in readings_of(summary, turn) if each.epoch > WARM_UP)
