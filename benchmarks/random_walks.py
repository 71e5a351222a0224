"""How many random walks of memory the rule `memory-grows` takes for growth, and lines for none.

    python benchmarks/random_walks.py --json benchmarks/results/random_walks.json

Walks of four kinds of steps, of which a rise is as likely as a fall, over as many epochs as are
judged and more, and over time; and lines with as much noise. All are drawn with fixed seeds. Each
step is large enough for the rule's least growth, so that only its tests of shape decide.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Sequence
from unittest.mock import patch

from harness import argument_parser, print_table
from results_file import save

from keras_gpukit.records.environment import Environment
from keras_gpukit.records.event import Series
from keras_gpukit.records.names import HOST_MEMORY
from keras_gpukit.records.run import RunSummary
from keras_gpukit.rules.memory import growth
from keras_gpukit.rules.memory.growth import LEAST_PROCESS_BYTES, growths_over_time, steady_rise

MIB = 2**20
START_BYTES, STEP_BYTES = 2048 * MIB, 64 * MIB
EPOCHS = (7, 8, 12, 18, 36, 60)
POINTS = (20, 64, 128)
"""Of a series over time."""
STEPS: dict[str, Callable[[random.Random], float]] = {
    "normal": lambda draw: draw.gauss(0, 1),
    "up or down": lambda draw: draw.choice((-1.0, 1.0)),
    "heavy tails": lambda draw: draw.gauss(0, 1) / max(draw.random(), 0.05),
    "seldom": lambda draw: draw.gauss(0, 1) if draw.random() < 0.3 else 0.0,
}
LINES = {"a tenth": 0.1, "a half": 0.5, "as much": 1.0, "twice as much": 2.0}
"""Noise around a line, in parts of what it rises by in an epoch."""


def walk(seed: int, count: int, kind: str) -> list[float]:
    """A walk's levels in bytes."""
    draw = random.Random(f"{kind} {count} {seed}")
    steps = (STEP_BYTES * STEPS[kind](draw) for _ in range(count - 1))
    return list(itertools.accumulate(steps, initial=float(START_BYTES)))


def line(seed: int, count: int, noise: float) -> list[float]:
    """Levels that rise by as much in each epoch, but for noise."""
    draw = random.Random(f"line {noise} {count} {seed}")
    return [START_BYTES + STEP_BYTES * (epoch + noise * draw.gauss(0, 1)) for epoch in range(count)]


def is_growth_by_epochs(levels: Sequence[float]) -> bool:
    """Whether levels after epochs are taken for growth."""
    return steady_rise(list(enumerate(map(int, levels), 3)), LEAST_PROCESS_BYTES) is not None


def is_growth_over_time(levels: Sequence[float]) -> bool:
    """Whether readings of each second are taken for growth."""
    places = tuple(range(len(levels)))
    # What a process holds is more than nothing.
    levels = tuple(max(level, 64.0 * MIB) for level in levels)
    series = Series(HOST_MEMORY, places, tuple(map(float, places)), levels, (1.0,) * len(levels))
    return bool(growths_over_time(RunSummary(Environment({}), series=(series,))))


def share(judge: Callable[[Sequence[float]], bool], drawn: Sequence[Sequence[float]]) -> float:
    """The part of the series that are taken for growth."""
    return sum(map(judge, drawn)) / len(drawn)


def main() -> None:
    parser = argument_parser(__doc__)
    parser.add_argument("--count", type=int, default=1000, help="series of each kind and length")
    options = parser.parse_args()
    seeds = range(options.count)
    judges = {"epochs": (is_growth_by_epochs, EPOCHS), "points": (is_growth_over_time, POINTS)}
    walks, untested = {}, {}
    for unit, (judge, counts) in judges.items():
        for count, kind in itertools.product(counts, STEPS):
            drawn = [walk(seed, count, kind) for seed in seeds]
            walks[f"{count} {unit}, {kind}"] = share(judge, drawn)
            with patch.object(growth, "rises_evenly", lambda points: True):
                untested[f"{count} {unit}, {kind}"] = share(judge, drawn)
    lines = {
        f"{count} epochs, noise {name}": share(
            is_growth_by_epochs, [line(seed, count, noise) for seed in seeds]
        )
        for count, (name, noise) in itertools.product(EPOCHS[:-1], LINES.items())
    }
    means = {
        f"walks by {unit}{test}": sum(own) / len(own)
        for unit in judges
        for test, rows in (("", walks), (" without the test for walks", untested))
        if (own := [each for name, each in rows.items() if f" {unit}, " in name])
    }
    print_table(
        f"{options.count} series each",
        ["walks", "taken for growth", "without the test for walks"],
        ([name, f"{each:.1%}", f"{untested[name]:.1%}"] for name, each in walks.items()),
    )
    print_table(
        f"{options.count} series each",
        ["lines", "taken for growth"],
        ([name, f"{each:.1%}"] for name, each in lines.items()),
        *(f"{name}: {each:.2%}" for name, each in means.items()),
    )
    if options.json:
        results = {"walks": walks, "walks_without_the_test": untested, "lines": lines}
        save(options.json, __file__, series=options.count, means=means, **results)


if __name__ == "__main__":
    main()
