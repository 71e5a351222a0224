"""Whether `tune` names the known best change of a script first, and reaches its rate.

    python benchmarks/tune_truth.py --json benchmarks/results/tune_truth.json

Four scripts in `tunable/` each have one change that is known to help; in the fifth nothing helps.
Each is tuned from outside, as `keras-gpukit tune` does. Then the script as it is takes turns with
the script as changed by hand. The goal is nine tenths of the gain by hand.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

from harness import argument_parser, print_table
from results_file import save, saved_rows

from keras_gpukit.cli.tune import TunedScript
from keras_gpukit.records.codec import to_dict
from keras_gpukit.rules.gains import TOLERANCE
from keras_gpukit.tuning.speedup_search import TrainingProcess
from keras_gpukit.tuning.trials import compare
from keras_gpukit.tuning.tune import search

SCRIPTS = Path(__file__).parent / "tunable"
BEST = {
    "elementwise": "jit",
    "tiny_steps": "steps-per-execution",
    "slow_input": "input",
    "small_batches": "batch-size",
    "large_products": None,
}
GOAL = 0.9
COMPARED_S, STARTS_WITHIN_S = 30.0, 300.0


def script(name: str, *arguments: str) -> TunedScript:
    return TunedScript(str(SCRIPTS / f"{name}.py"), None, arguments)


def gain_by_hand(name: str) -> tuple[float, float, float]:
    """The gain of the script as changed by hand, with its 95 % interval."""
    until_s = time.monotonic() + STARTS_WITHIN_S
    processes = [
        TrainingProcess(script(name, *arguments).start((), None), until_s)
        for arguments in ((), ("--by-hand",))
    ]
    try:
        plain, changed = processes
        # A threshold that is never met: all rounds are measured.
        found = compare(plain.rate, changed.rate, threshold=float("nan"), seconds=COMPARED_S)
    finally:
        for process in processes:
            process.close()
    return found.gain, found.low, found.high


def measure(name: str, minutes: float) -> dict[str, Any]:
    found = search(
        script(name).start, name, names=(), minutes=minutes, tolerance=TOLERANCE, shown=False
    )
    kept = sorted((t for t in found.trials if t.kept), key=lambda t: -(t.gain or 0.0))
    row: dict[str, Any] = {
        "best_by_hand": BEST[name],
        # Of changes together, the one that gains most alone comes first.
        "named_first": kept[0].change.split(" + ")[0] if kept else None,
        "gain": found.best.gain if found.best else 1.0,
        "tuning_s": found.duration_s,
        "result": to_dict(found),
    }
    row["is_right"] = row["named_first"] == BEST[name]
    if BEST[name]:
        row["gain_by_hand"], row["by_hand_low"], row["by_hand_high"] = gain_by_hand(name)
        row["share_of_goal"] = row["gain"] / row["gain_by_hand"]
        row["is_right"] &= row["share_of_goal"] >= GOAL
    return row


def show(rows: dict[str, Any]) -> None:
    print_table(
        "gain over the script as it is",
        ("script", "known best", "named first", "gain", "by hand", "share", "right"),
        [
            (
                name,
                row["best_by_hand"] or "none",
                row["named_first"] or "none",
                f"{row['gain']:.2f}",
                f"{row['gain_by_hand']:.2f}" if "gain_by_hand" in row else "",
                f"{row['share_of_goal']:.2f}" if "share_of_goal" in row else "",
                "yes" if row["is_right"] else "no",
            )
            for name, row in rows.items()
        ],
        f"{sum(row['is_right'] for row in rows.values())} of {len(rows)} are right.",
    )


def main() -> int:
    parser = argument_parser(__doc__)
    parser.add_argument("--minutes", type=float, default=5, help="for each script")
    parser.add_argument("--only", nargs="+", choices=BEST, help="names of scripts")
    arguments = parser.parse_args()
    rows = saved_rows(arguments.json, "scripts") if arguments.only else {}
    for name in arguments.only or BEST:
        rows[name] = measure(name, arguments.minutes)
        show(rows)
    if arguments.json:
        rows = {name: rows[name] for name in BEST if name in rows}
        save(arguments.json, __file__, scripts=rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
