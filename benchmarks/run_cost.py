"""What `keras-gpukit run` adds to a whole script: processor time, and wall time.

    python benchmarks/run_cost.py --json benchmarks/results/run_cost.json

Each round runs each script in `benchmarks/run_cost` under Python and under `run`, one right after
the other, in an order of its own. Processor time is user and system time of the process and all
that it starts, which includes loading this package and writing the report. Other work on the
machine changes both of a pair: the differences within pairs count, and their range shows the noise.
"""

from __future__ import annotations

import functools
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from harness import argument_parser, in_turns, print_table
from results_file import save, saved_rows
from unchanged_scripts import PYTHON, RUN

SCRIPTS = Path(__file__).parent / "run_cost"
COMMANDS = {"plain": PYTHON, "run": RUN}


def measure(command: tuple[str, ...], script: Path) -> dict[str, float]:
    """Runs a script in a folder of its own; returns its wall time and processor time."""
    before, began_s = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(
            [*command, str(script)],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            check=True,
            env={**os.environ, "KERAS_BACKEND": "tensorflow"},
        )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_s = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
    return {"wall_s": time.perf_counter() - began_s, "cpu_s": cpu_s}


def compare(script: Path, rounds: int) -> dict[str, Any]:
    """Runs a script under both commands in turns."""
    variants = {
        name: functools.partial(measure, command, script) for name, command in COMMANDS.items()
    }
    measured = in_turns(variants, rounds)
    row: dict[str, Any] = {"rounds": rounds}
    for kind in ("cpu_s", "wall_s"):
        plain, run = ([times[kind] for times in measured[name]] for name in COMMANDS)
        added = [ours - theirs for ours, theirs in zip(run, plain, strict=True)]
        row[kind] = statistics.median(plain)
        row[f"added_{kind}"] = statistics.median(added)
        row[f"added_{kind}_low"], row[f"added_{kind}_high"] = min(added), max(added)
        row[f"added_{kind}_each"] = added
        ratios = [ours / theirs for ours, theirs in zip(run, plain, strict=True)]
        row[f"ratio_{kind}"] = statistics.median(ratios)
    return row


def main() -> int:
    """Compares all scripts."""
    parser = argument_parser(__doc__)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--only", help="a script's name; the file keeps the others")
    arguments = parser.parse_args()
    rows = saved_rows(arguments.json, "scripts") if arguments.only else {}
    for script in sorted(SCRIPTS.glob(f"{arguments.only or '*'}.py")):
        rows[script.stem] = compare(script, arguments.rounds)
    print_table(
        "scripts under Python and under keras-gpukit run: median of pairs",
        ("script", "CPU", "added", "from", "to", "wall", "added", "ratio"),
        (
            (
                name,
                f"{row['cpu_s']:.1f} s",
                f"{row['added_cpu_s']:.2f} s",
                *(f"{row[f'added_cpu_s_{end}']:.2f} s" for end in ("low", "high")),
                f"{row['wall_s']:.1f} s",
                f"{row['added_wall_s']:.2f} s",
                f"{row['ratio_wall_s']:.3f}",
            )
            for name, row in rows.items()
        ),
    )
    save(arguments.json, __file__, scripts=rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
