"""How long training waits for the iterator of the epoch before, without and with a `Monitor`.

    python benchmarks/epoch_starts.py --json benchmarks/results/epoch_starts.json

Each epoch trains a small model for some seconds on a healthy pipeline. Rounds of both ways take
turns, each in a process of its own. A pause lasts from an epoch's end to its next execution's end.
"""

from __future__ import annotations

import json
import os
import time
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
from harness import argument_parser, in_own_process, print_table
from results_file import save

EPOCHS = 8
LONG_S = 1.0
WAYS = ("plain", "monitored")


class Pauses(keras.callbacks.Callback):  # type: ignore[misc]
    """Seconds from the end of each epoch to the end of the next one's first execution."""

    def __init__(self) -> None:
        super().__init__()
        self.seconds: list[float] = []
        self._ended_s: float | None = None

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Notes the time."""
        self._ended_s = time.perf_counter()

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """Notes the pause, once an epoch."""
        if self._ended_s is not None:
            self.seconds.append(time.perf_counter() - self._ended_s)
            self._ended_s = None


def pauses_of(way: str) -> list[float]:
    """Returns the pauses between the epochs of one fit."""
    from planted.causes import STEPS, batches, model

    import keras_gpukit as gpukit

    watching = [gpukit.Monitor(None, verbose=0)] if way == "monitored" else []
    pauses = Pauses()
    data = batches(3 * STEPS).prefetch(2)
    model(steps_per_execution=10).fit(data, epochs=EPOCHS, verbose=0, callbacks=[pauses, *watching])
    return pauses.seconds


def main() -> None:
    """Runs rounds of both ways in turns."""
    parser = argument_parser(__doc__)
    parser.add_argument("--one", choices=WAYS, help="run one fit here, and print its pauses")
    parser.add_argument("--rounds", type=int, default=4, help="4 by default")
    options = parser.parse_args()
    if options.one:
        print(json.dumps({"pauses_s": pauses_of(options.one)}))
        return
    found: dict[str, list[float]] = {way: [] for way in WAYS}
    for _ in range(options.rounds):
        for way in WAYS:
            [one] = in_own_process(__file__, ["--one", way], limit_s=300)
            found[way] += one["pauses_s"]
    ways = {
        way: {
            "pauses": len(each),
            "long": sum(pause_s > LONG_S for pause_s in each),
            "longest_s": max(each),
            "total_s": sum(each),
        }
        for way, each in found.items()
    }
    print_table(
        f"Pauses between epochs; long ones took more than {LONG_S:.0f} s",
        ("way", "pauses", "long", "longest", "all"),
        [
            (
                *(way, str(row["pauses"]), str(row["long"])),
                *(f"{row['longest_s']:.2f} s", f"{row['total_s']:.1f} s"),
            )
            for way, row in ways.items()
        ],
    )
    if options.json:
        save(options.json, __file__, long_s=LONG_S, epochs=EPOCHS, ways=ways)


if __name__ == "__main__":
    main()
