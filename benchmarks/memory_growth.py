"""Whether memory that grows with each epoch is found, by how much, and healthy runs are not.

    python benchmarks/memory_growth.py --json benchmarks/results/memory_growth.json

Each case trains in a process of its own with TensorFlow's GPU allocator on the CPU
(TF_CPU_ALLOCATOR_USE_BFC). Of each it is kept what the readings between epochs, or between fits of
one epoch, rose by after the second one, of the process and of the allocator: the least growth that
the rule `memory-grows` takes for one is chosen by those of the healthy runs.
"""

from __future__ import annotations

import json
import sys
import tempfile
from typing import Any

from harness import argument_parser, in_own_process, print_table
from planted.memory_growth import CASES, fit
from results_file import save, saved_rows

EPOCHS = 40
ENVIRONMENT = {"TF_CPU_ALLOCATOR_USE_BFC": "true", "TF_ENABLE_ONEDNN_OPTS": "0"}


def train(name: str, epochs: int) -> dict[str, Any]:
    """What a process of its own does."""
    import keras_gpukit as gpukit

    monitor = gpukit.Monitor(None, verbose=0)
    with tempfile.TemporaryDirectory() as folder:
        fit(name, epochs, [monitor], folder)
    summary = monitor.summary
    turn = CASES[name].turn
    every = summary.memory.epochs if turn == "epoch" else summary.memory.fits
    readings = [each for each in every if each.epoch > 2]
    found = [each for each in summary.findings if each.code == "memory-grows"]
    return {
        "process_rose_bytes": readings[-1].process_bytes - readings[0].process_bytes,
        "device_rose_bytes": readings[-1].current_bytes["CPU:0"]
        - readings[0].current_bytes["CPU:0"],
        "readings": len(readings),
        "finding": found[0].title if found else None,
        "severity": found[0].severity if found else None,
        "evidence": {each.name: each.value for each in found[0].evidence} if found else {},
        "advice": found[0].advice[0] if found else None,
        "reading_s": summary.overhead_s * summary.steps / epochs,
    }


def judged(name: str, row: dict[str, Any]) -> dict[str, Any]:
    """Adds whether the finding is right."""
    case = CASES[name]
    adds = row["evidence"].get(f"each {case.turn} adds")
    title = row["finding"] or ""
    right = bool(title) == case.leaks
    if case.leaks and case.where:
        right = right and f"Memory of {case.where} grows with each {case.turn}" in title
    return {
        "planted_bytes": case.planted_bytes,
        **row,
        "rate_error": adds / case.planted_bytes - 1 if adds and case.planted_bytes else None,
        "found_right": right,
        "cause_right": None
        if case.cause is None
        else any(case.cause in text for text in (*row["evidence"], row["advice"] or "")),
    }


def main() -> None:
    parser = argument_parser(__doc__)
    parser.add_argument("--only", nargs="*", help="cases to run; others are kept from --json")
    parser.add_argument("--epochs", type=int, default=EPOCHS)
    options = parser.parse_args()
    rows = saved_rows(options.json, "cases") if options.only else {}
    for name in options.only or CASES:
        arguments = ["--train", name, str(options.epochs)]
        (row,) = in_own_process(__file__, arguments, environment=ENVIRONMENT)
        rows[name] = judged(name, row)
        print(name, json.dumps(rows[name]), flush=True)
        if options.json:
            save(options.json, __file__, epochs=options.epochs, cases=rows)
    print_table(
        f"{sum(row['found_right'] for row in rows.values())} of {len(rows)} judged right",
        ["case", "process rose", "allocator rose", "finding", "rate error", "cause named"],
        (
            [
                name,
                f"{row['process_rose_bytes'] / 2**20:.1f} MiB",
                f"{row['device_rose_bytes'] / 2**20:.2f} MiB",
                row["finding"] or "none",
                "" if row["rate_error"] is None else f"{row['rate_error']:+.1%}",
                "" if row["cause_right"] is None else str(row["cause_right"]),
            ]
            for name, row in rows.items()
        ),
    )


if __name__ == "__main__":
    if sys.argv[1:2] == ["--train"]:
        print(json.dumps(train(sys.argv[2], int(sys.argv[3]))))
    else:
        main()
