"""Whether `compare` finds a planted slowdown of 10 %, and calls no two equal runs different.

    python benchmarks/compare_truth.py --json benchmarks/results/compare_truth.json

Five trainings, each in two pairs: twice as it is, and as it is and a tenth slower. Each run is a
process of its own, and each is repeated, all in turn. Of a slower pair the step time must be marked
as worse; of an equal pair no figure may be marked as better or worse. The repeats are compared one
by one too. It takes half an hour on a quiet machine.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

from harness import argument_parser, print_table
from results_file import save, saved_rows

from keras_gpukit.records.codec import to_dict
from keras_gpukit.records.report import RunReport
from keras_gpukit.reports.comparison import headline, reasons
from keras_gpukit.rules.comparing.compare import compare_runs
from keras_gpukit.rules.compute.host_cpu import POOL
from keras_gpukit.saved_runs.log_folder import load_report

SCRIPT = Path(__file__).parent / "planted" / "compared_run.py"
TRAININGS = ("dense", "convolutional", "callback", "tf.data", "pydataset")
SIDES = {"first": [], "equal": [], "slower": ["--slow"]}
LIMIT_S = 240.0
# Else freed memory goes back to the kernel after each step, or not, as the heap happens to lie: the
# same convolutions take 52 ms in one process and 90 ms in another (`page-faults`).
KEEPS_MEMORY = dict([POOL.split("=")])


def run(name: str, folder: Path, arguments: list[str]) -> RunReport:
    command = [sys.executable, str(SCRIPT), name, str(folder), *arguments]
    environment = {**os.environ, **KEEPS_MEMORY}
    subprocess.run(command, check=True, timeout=LIMIT_S, stdout=subprocess.DEVNULL, env=environment)
    return load_report(folder).runs[0]


def measure(name: str, repeats: int) -> dict[str, Any]:
    runs: dict[str, list[RunReport]] = {side: [] for side in SIDES}
    with tempfile.TemporaryDirectory() as temporary:
        for repeat in range(repeats):
            for side, arguments in SIDES.items():
                made = run(name, Path(temporary, f"{side}-{repeat}"), arguments)
                runs[side].append(replace(made, name=side, folder=""))
    return {
        f"{name}/{side}": compared_row(side, runs["first"], runs[side])
        for side in ("equal", "slower")
    }


def compared_row(side: str, first: list[RunReport], second: list[RunReport]) -> dict[str, Any]:
    compared = compare_runs(first, second)
    singly = [step_mark([one], [other]) for one, other in zip(first, second, strict=True)]
    marked = {diff.name: diff.mark for diff in compared.figures if diff.mark in ("better", "worse")}
    is_right = marked.get("step_time") == "worse" if side == "slower" else not marked
    return {
        "is_right": is_right,
        "step_time": to_dict(compared.figure("step_time")),
        "step_times_ms": [
            [1e3 * (run.summary.step_time_s or 0.0) for run in runs] for runs in (first, second)
        ],
        "singly": {mark: singly.count(mark) for mark in sorted(set(singly))},
        "marked": marked,
        "headline": headline(compared)[1],
        "reasons": reasons(compared),
    }


def step_mark(a: list[RunReport], b: list[RunReport]) -> str:
    return str(compare_runs(a, b).figure("step_time").mark)


def show(rows: dict[str, Any]) -> None:
    print_table(
        "pairs of runs",
        ("pair", "step time", "marked", "one by one", "right"),
        [
            (
                pair,
                row["headline"],
                ", ".join(f"{name} {mark}" for name, mark in row["marked"].items()) or "nothing",
                ", ".join(f"{count} {mark}" for mark, count in row["singly"].items()),
                "yes" if row["is_right"] else "no",
            )
            for pair, row in rows.items()
        ],
        f"{sum(row['is_right'] for row in rows.values())} of {len(rows)} are right.",
    )


def main() -> int:
    parser = argument_parser(__doc__)
    parser.add_argument("--only", nargs="+", choices=TRAININGS, help="names of trainings")
    parser.add_argument("--repeats", type=int, default=6, help="runs of each side (default: 6)")
    arguments = parser.parse_args()
    rows = saved_rows(arguments.json, "pairs") if arguments.only else {}
    for name in arguments.only or TRAININGS:
        rows |= measure(name, arguments.repeats)
        show(rows)
        save(arguments.json, __file__, repeats=arguments.repeats, pairs=rows)
    return 0 if all(row["is_right"] for row in rows.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
