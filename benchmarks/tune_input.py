"""How close `tune_input` brings slow pipelines to the best that can be written by hand.

    python benchmarks/tune_input.py --json benchmarks/results/tune_input.json

Ten pipelines of kinds that users write, each slow for one reason, are tuned; where what helps is
advice only, the advice is followed by hand ("advice" in the column "by"). Next to each is a
version written for speed by hand, which gives the same elements, and the rate at which a small
convolutional model trains on batches in memory. The goal is nine tenths of the lower of these two.
Rates are read in rounds, the pipelines in turn; reported is the median of the rounds' ratios,
with its 95 % interval. With `--only` some are measured, and put into the file next to
those that are there.
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
from collections.abc import Callable
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
from harness import argument_parser, in_turns, print_table
from planted.untuned import BATCH, SIZE, Case, Dataset, Files, cases
from results_file import save, saved_rows

from keras_gpukit.memory.untouched import untouched
from keras_gpukit.tuning.measuring import compute_rate, hold, median_interval, rate_of
from keras_gpukit.tuning.py_dataset import PyDatasetTuning
from keras_gpukit.tuning.sources import endless
from keras_gpukit.tuning.tune_input import tune_input

GOAL = 0.9
READ_S = 0.6


def build_model() -> keras.Model:
    """Small, so that its rate on two cores is above that of the slow pipelines."""
    layers = keras.layers
    model = keras.Sequential(
        [
            keras.Input((SIZE, SIZE, 3)),
            layers.Conv2D(8, 4, strides=4, activation="relu"),
            layers.GlobalAveragePooling2D(),
            layers.Dense(10),
        ]
    )
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile("sgd", loss, jit_compile=False)
    return model


def reader(dataset: Dataset) -> Callable[[], float]:
    """Returns what reads examples a second, once the first epoch has filled caches."""
    if isinstance(dataset, keras.utils.PyDataset):
        batches_per_s = PyDatasetTuning(dataset, READ_S, processes=False).reader(dataset)
        return lambda: BATCH * batches_per_s()
    for _, labels in dataset:
        examples = int(labels.shape[0])  # in every batch: all counts are multiples of a batch's
    repeated = endless(dataset)

    def read() -> float:
        # Made each time, as fit does for an epoch: one that is left to wait makes batches ahead
        # while others are read, twice as many each time.
        iterator = iter(repeated)
        return examples * rate_of(lambda: next(iterator), 2 * READ_S, settling=0.5)

    return read


def ceiling(model: keras.Model, dataset: Dataset) -> float:
    """Examples a second that the model trains on when they are in memory."""
    batches = endless(dataset)
    with untouched(model):
        held = hold(iter(batches), batches.element_spec)
        return BATCH * compute_rate(model, held, seconds=4).median


def measure(case: Case, compute: float, seconds: float, rounds: int) -> dict[str, Any]:
    begun_with = case.slow if case.advised is None else case.advised
    tuned = tune_input(begun_with(), seconds=seconds, verbose=False, **dict(case.arguments))
    print(tuned, flush=True)
    reads = {
        "slow": reader(case.slow()),
        "tuned": reader(tuned.dataset),
        "by hand": reader(case.by_hand()),
    }
    rates = in_turns(reads, rounds)
    goals = [min(rate, compute) for rate in rates["by hand"]]
    shares = [rate / goal for rate, goal in zip(rates["tuned"], goals, strict=True)]
    low, high = median_interval(shares)
    return {
        "by": "tune_input" if case.advised is None else "advice, then tune_input",
        "seconds": seconds,
        "rounds": rounds,
        "slow_examples_per_s": statistics.median(rates["slow"]),
        "tuned_examples_per_s": statistics.median(rates["tuned"]),
        "by_hand_examples_per_s": statistics.median(rates["by hand"]),
        "compute_examples_per_s": compute,
        "share_of_goal": statistics.median(shares),
        "share_low": low,
        "share_high": high,
        "share_of_by_hand": statistics.median(
            rate / best for rate, best in zip(rates["tuned"], rates["by hand"], strict=True)
        ),
        "kept": [trial.description for trial in tuned.trials if trial.kept],
        "tuning_s": tuned.record.duration_s,
    }


def show(rows: dict[str, Any]) -> None:
    keys = ("slow", "tuned", "by_hand", "compute")
    reached = sum(row["share_of_goal"] >= GOAL for row in rows.values())
    print_table(
        "examples/s; goal: the lower of by hand and the model alone",
        ("pipeline", "by", *keys, "of goal", "95 %", "of by hand"),
        [
            (
                name,
                row["by"],
                *(f"{row[f'{key}_examples_per_s']:,.0f}" for key in keys),
                f"{row['share_of_goal']:.2f}",
                f"{row['share_low']:.2f} to {row['share_high']:.2f}",
                f"{row['share_of_by_hand']:.2f}",
            )
            for name, row in rows.items()
        ],
        f"{reached} of {len(rows)} reach {GOAL:.0%} of their goal.",
    )


def main() -> int:
    parser = argument_parser(__doc__)
    parser.add_argument("--seconds", type=float, default=60, help="for each tuning")
    parser.add_argument("--rounds", type=int, default=18)
    parser.add_argument("--only", type=int, nargs="+", help="numbers of pipelines, from 1")
    arguments = parser.parse_args()

    rows = saved_rows(arguments.json) if arguments.only else {}
    with tempfile.TemporaryDirectory() as folder:
        files = Files(folder)
        every = cases(files)
        compute = ceiling(build_model(), every[0].by_hand())
        for number, case in enumerate(every, 1):
            if not arguments.only or number in arguments.only:
                rows[case.name] = measure(case, compute, arguments.seconds, arguments.rounds)
    rows = {case.name: rows[case.name] for case in every if case.name in rows}
    show(rows)
    if arguments.json:
        save(arguments.json, __file__, pipelines=rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
