"""How much longer a step takes on the CPU if the cores idled before it.

    python benchmarks/step_after_pause.py --json benchmarks/results/step_after_pause.json

Models train on batches in memory, with and without pauses between steps. During a pause, as during
a wait for input, the cores sleep and their caches cool down. The extra time as a share of the pause
bounds what steps gain in addition to the wait itself if the wait is removed.
"""

from __future__ import annotations

import functools
import statistics
import time
from collections.abc import Callable
from itertools import chain
from typing import Any

from harness import argument_parser, in_turns, print_table
from results_file import save

PAUSES_S = (0.003, 0.01, 0.03, 0.1)
ROUNDS = 8
STEPS, SETTLING = 15, 5
"""Steps of a round, and how many of them come before the times that count."""


def main() -> None:
    """Times the steps of each model, the pauses in random order."""
    options = argument_parser(__doc__).parse_args()
    rows: dict[str, Any] = {}
    for name, step in models().items():
        step()
        variants = {str(each): functools.partial(timed, step, each) for each in (0.0, *PAUSES_S)}
        step_s = {
            key: statistics.median(chain.from_iterable(rounds))
            for key, rounds in in_turns(variants, ROUNDS).items()
        }
        extra = {str(each): (step_s[str(each)] - step_s["0.0"]) / each for each in PAUSES_S}
        rows[name] = {"step_s": step_s, "extra_of_pause": extra}
    largest = max(extra for row in rows.values() for extra in row["extra_of_pause"].values())
    print_table(
        "Steps after a pause",
        ("model", "without", *(f"{1000 * pause_s:g} ms" for pause_s in PAUSES_S)),
        [_shown(name, row) for name, row in rows.items()],
        f"At most {100 * largest:.0f} % of the pause.",
    )
    if options.json:
        save(options.json, __file__, rounds=ROUNDS, largest_extra_of_pause=largest, models=rows)


def models() -> dict[str, Callable[[], Any]]:
    """Returns a training step of each model."""
    import keras
    import numpy as np

    layers = keras.layers

    def dense(width: int, count: int) -> list[Any]:
        return [layers.Dense(width, "relu") for _ in range(count)]

    def convolutions() -> list[Any]:
        return [*(layers.Conv2D(32, 3, activation="relu") for _ in range(2)), layers.Flatten()]

    def training_step(shape: tuple[int, ...], batch: int, inner: list[Any]) -> Callable[[], Any]:
        model = keras.Sequential([keras.Input(shape), *inner, layers.Dense(1)])
        model.compile("adam", "mse")
        random = np.random.default_rng(0)
        x = keras.ops.convert_to_tensor(random.random((batch, *shape), dtype="float32"))
        y = keras.ops.convert_to_tensor(random.random((batch, 1), dtype="float32"))
        return lambda: model.train_on_batch(x, y)

    return {
        "small dense": training_step((256,), 32, dense(64, 1)),
        "dense": training_step((256,), 128, dense(1024, 2)),
        "wide dense": training_step((256,), 256, dense(2048, 3)),
        "convolutional": training_step((64, 64, 3), 16, convolutions()),
    }


def timed(step: Callable[[], Any], pause_s: float) -> list[float]:
    """Runs a round of steps, and returns how long each took."""
    times = []
    for _ in range(STEPS):
        time.sleep(pause_s)
        began_s = time.perf_counter()
        step()
        times.append(time.perf_counter() - began_s)
    return times[SETTLING:]


def _shown(name: str, row: dict[str, Any]) -> tuple[str, ...]:
    step_s, extra = row["step_s"], row["extra_of_pause"]
    after = (
        f"{1000 * step_s[str(each)]:.1f} ms ({100 * extra[str(each)]:+.0f} %)" for each in PAUSES_S
    )
    return (name, f"{1000 * step_s['0.0']:.1f} ms", *after)


if __name__ == "__main__":
    main()
