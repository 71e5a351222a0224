"""How well `diagnose` predicts: the ceiling it names against the gain that is really reached.

    python benchmarks/diagnose_ceiling.py --json benchmarks/results/diagnose_ceiling.json

Each pipeline has one planted cause. `diagnose` looks at it; between its rounds, `fit` is timed by a
callback of this file's own, with the cause and without it in turns: it is removed by hand, by
having the very same batches in memory. Predicted and reached gain are compared. Two pipelines hold
training up by more than their slowness, one by burning all cores and one by holding the
GIL: that must be recognised.

Between the rounds, since a machine's speed drifts by a tenth and more within a minute: what is
gained by removing a wait is really another gain a minute later.

Other programs make both estimates worse: `others` says how many cores they took meanwhile.

`--only NAME ...` measures some pipelines alone, and adds them to the file.
"""

from __future__ import annotations

import os
import statistics
import sys
import time
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from unittest import mock

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

from harness import argument_parser, print_table
from planted.bottlenecks import CONTENDED, PIPELINES
from results_file import save, saved_rows
from trainings import Trainings, build_model

import keras_gpukit.tuning.diagnose as experiment
from keras_gpukit.records.tuning import Diagnosis
from keras_gpukit.tuning.measuring import busy_cpu_s, own_cpu_s

WITHIN = 0.10


def diagnose_between(trainings: Trainings, planted, seconds: float) -> Diagnosis:
    """`diagnose`, with trainings where it would draw its progress; their time does not count."""

    def tell(what: str, done: float) -> None:
        if what.startswith("round"):
            trainings.run()

    with mock.patch.object(experiment, "progress", return_value=nullcontext(tell)):
        diagnosis = experiment.diagnose(build_model(), planted, seconds=seconds, verbose=False)
    spent_s = diagnosis.spent_s - trainings.spent_s
    trainings.run()
    return replace(diagnosis, spent_s=spent_s)


def measure(name: str, seconds: float, pairs: int) -> dict:
    began, busy_s, own_s = time.perf_counter(), busy_cpu_s(), own_cpu_s()
    planted = PIPELINES[name]()
    trainings = Trainings(planted, pairs)
    diagnosis = diagnose_between(trainings, planted, seconds)
    with_it, without = trainings.with_it, trainings.without
    reached = statistics.median(a / b for a, b in zip(without, with_it, strict=True))
    ceiling, contention = diagnosis.ceiling_interval, diagnosis.contention
    cause = contention.cause if contention else None
    others_s = (busy_cpu_s() - busy_s) - (own_cpu_s() - own_s)
    return {
        "data_only": diagnosis.data_only.median,
        "compute_only": diagnosis.compute_only.median,
        "actual": diagnosis.actual.median,
        "predicted": ceiling.median,
        "predicted_low": ceiling.low,
        "predicted_high": ceiling.high,
        "told": diagnosis.ceiling_gain is not None,
        "fit_with": statistics.median(with_it),
        "fit_without": statistics.median(without),
        "reached": reached,
        "error": ceiling.median / reached - 1,
        "shortfall": contention.shortfall.median if contention else None,
        "cause": cause,
        "cores_busy_fraction": statistics.median(
            each.cores_busy_fraction for each in diagnosis.rounds
        ),
        "interpreter_delay_ms": 1e3
        * statistics.median(each.gil_wait_s for each in diagnosis.rounds),
        "recognised": name not in CONTENDED or cause == CONTENDED[name],
        "rounds": len(diagnosis.rounds),
        "spent_s": diagnosis.spent_s,
        "others_cores": others_s / (time.perf_counter() - began),
    }


def show(rows: dict[str, dict]) -> None:
    headings = ("pipeline", "data", "compute", "together", "predicted", "reached", "error")
    print_table(
        f"two estimates of the gain, within {WITHIN:.0%} or not",
        (*headings, "short", "cause", "busy", "late ms", "others"),
        [
            (
                name,
                *(f"{row[key]:.0f}" for key in ("data_only", "compute_only", "actual")),
                f"{row['predicted']:.2f} ({row['predicted_low']:.2f}-{row['predicted_high']:.2f})",
                f"{row['reached']:.2f}",
                f"{row['error']:+.1%}",
                "" if row["shortfall"] is None else f"{row['shortfall']:.0%}",
                row["cause"] or "",
                f"{row['cores_busy_fraction']:.2f}",
                f"{row['interpreter_delay_ms']:.2f}",
                f"{row['others_cores']:.2f}",
            )
            for name, row in rows.items()
        ],
    )


def add_to(path: Path, rows: dict[str, dict], seconds: float) -> None:
    known = saved_rows(path) | rows
    ordered = {name: known[name] for name in PIPELINES if name in known}
    save(path, __file__, seconds=seconds, pipelines=ordered)


def main() -> int:
    parser = argument_parser(__doc__)
    parser.add_argument("--only", nargs="+", choices=PIPELINES, default=list(PIPELINES))
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--pairs", type=int, default=3, help="after each round")
    arguments = parser.parse_args()

    rows: dict[str, dict] = {}
    for name in arguments.only:
        rows[name] = measure(name, arguments.seconds, arguments.pairs)
        print(f"{name}: {rows[name]['error']:+.1%}", flush=True)
        if arguments.json:
            add_to(Path(arguments.json), rows, arguments.seconds)
    show(rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
