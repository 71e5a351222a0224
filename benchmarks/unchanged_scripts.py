"""Runs unchanged training scripts under Python and under `keras-gpukit run`, and compares them.

    python benchmarks/unchanged_scripts.py --json benchmarks/results/unchanged_scripts.json

The scripts in `benchmarks/unchanged` are written as Keras' published examples are, and know nothing
of this package. Each prints its losses with all their digits. Compared are the exit code and the
whole standard output, in which only the durations that Keras prints are masked; the second run
under Python shows what changes by itself. The exit status is 1 if anything differs.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from harness import argument_parser, print_table
from results_file import save

SCRIPTS = Path(__file__).parent / "unchanged"
PYTHON = (sys.executable,)
RUN = (sys.executable, "-m", "keras_gpukit", "run")
DURATIONS = re.compile(rb"\d+(?:\.\d+)?(?:us|ms|s|min|h)\b(?:/(?:step|epoch))?")


def run(
    command: tuple[str, ...], script: Path, folder: Path, arguments: tuple[str, ...] = ()
) -> dict[str, Any]:
    """Runs a script in a folder; returns its exit code, standard output and standard error."""
    done = subprocess.run(
        [*command, str(script), *arguments],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
        env={**os.environ, "KERAS_BACKEND": "tensorflow"},
    )
    return {
        "exit_code": done.returncode,
        "output": DURATIONS.sub(b"(time)", done.stdout),
        "error": done.stderr.decode(errors="replace"),
    }


def compare(script: Path) -> dict[str, Any]:
    """Runs a script twice under Python and once under `keras-gpukit run`."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        first, second, watched = (run(command, script, folder) for command in (PYTHON, PYTHON, RUN))
        records = [len(path.read_bytes()) for path in folder.glob("logs/*/*/gpukit/run.jsonl")]
        reports = list(folder.glob("logs/*/report.html"))
    return {
        "exit_code": first["exit_code"],
        "repeatable": first["output"] == second["output"],
        "same_exit_code": watched["exit_code"] == first["exit_code"],
        "same_output": watched["output"] == first["output"],
        "output_bytes": len(first["output"]),
        "losses": first["output"].count(b"loss"),
        "models_recorded": len(records),
        "report": len(reports) == 1 and "Report: " in watched["error"],
    }


def main() -> int:
    """Runs all scripts."""
    parser = argument_parser(__doc__)
    parser.add_argument("--only", help="a script's name")
    arguments = parser.parse_args()
    scripts = sorted(SCRIPTS.glob(f"{arguments.only or '*'}.py"))
    rows = {script.stem: compare(script) for script in scripts}
    keys = ("exit_code", "repeatable", "same_exit_code", "same_output", "report")
    print_table(
        "unchanged scripts under Python and under keras-gpukit run",
        ("script", "exit code", "repeatable", "same code", "same output", "report"),
        ((name, *(str(row[key]) for key in keys)) for name, row in rows.items()),
    )
    save(arguments.json, __file__, scripts=rows)
    good = all(
        row["same_exit_code"] and row["same_output"] and row["report"] for row in rows.values()
    )
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
