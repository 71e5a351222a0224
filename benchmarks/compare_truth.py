"""Whether `compare` finds a planted slowdown of 10 %, and calls no two equal runs different.

    python benchmarks/compare_truth.py --json benchmarks/results/compare_truth.json

Five trainings, each in two pairs: twice as it is, and as it is and a tenth slower. Each run is a
process of its own. Of a slower pair the step time must be marked as worse; of an equal pair no
figure may be marked as better or worse. It takes about eight minutes on a quiet machine.
"""

from __future__ import annotations

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
from keras_gpukit.saved_runs import load_report

SCRIPT = Path(__file__).parent / "planted" / "compared_run.py"
TRAININGS = ("dense", "convolutional", "callback", "tf.data", "pydataset")
PAIRS = [f"{name}/{kind}" for name in TRAININGS for kind in ("equal", "slower")]
LIMIT_S = 240.0


def run(name: str, folder: Path, *arguments: str) -> RunReport:
    command = [sys.executable, str(SCRIPT), name, str(folder), *arguments]
    subprocess.run(command, check=True, timeout=LIMIT_S, stdout=subprocess.DEVNULL)
    return load_report(folder).runs[0]


def measure(pair: str) -> dict[str, Any]:
    name, kind = pair.split("/")
    with tempfile.TemporaryDirectory() as temporary:
        first = run(name, Path(temporary, "a"))
        slow = ["--slow"] if kind == "slower" else []
        second = run(name, Path(temporary, "b"), *slow)
    compared = compare_runs(replace(first, name="first"), replace(second, name="second"))
    marked = {each.name: each.mark for each in compared.figures if each.mark in ("better", "worse")}
    step = compared.figure("step_time")
    is_right = marked.get("step_time") == "worse" if kind == "slower" else not marked
    return {
        "is_right": is_right,
        "step_time": to_dict(step),
        "marked": marked,
        "headline": headline(compared)[1],
        "reasons": reasons(compared),
        "windows": [
            next((len(each.mean) for each in run.summary.series if each.tag == "step/time_ms"), 0)
            for run in (first, second)
        ],
    }


def show(rows: dict[str, Any]) -> None:
    print_table(
        "pairs of runs",
        ("pair", "step time", "marked", "windows", "right"),
        [
            (
                pair,
                row["headline"],
                ", ".join(f"{name} {mark}" for name, mark in row["marked"].items()) or "nothing",
                " and ".join(map(str, row["windows"])),
                "yes" if row["is_right"] else "no",
            )
            for pair, row in rows.items()
        ],
        f"{sum(row['is_right'] for row in rows.values())} of {len(rows)} are right.",
    )


def main() -> int:
    parser = argument_parser(__doc__)
    parser.add_argument("--only", nargs="+", choices=PAIRS, help="names of pairs")
    arguments = parser.parse_args()
    rows = saved_rows(arguments.json, "pairs") if arguments.only else {}
    for pair in arguments.only or PAIRS:
        rows[pair] = measure(pair)
        show(rows)
    if arguments.json:
        rows = {pair: rows[pair] for pair in PAIRS if pair in rows}
        save(arguments.json, __file__, pairs=rows)
    return 0 if all(row["is_right"] for row in rows.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
