"""Whether the verdict names the largest cause, and promises what removing it really saves.

Each run has a cause whose part of the time is known, or none (`benchmarks/planted/causes.py`). It
is repeated without the cause, before and after, which shows the machine's own noise. The first
finding must be of that cause, healthy runs must get none but remarks, and the wall time that was
really saved must lie in the range that the finding gives. The range is widened by a twentieth of
the run, and by as much as the two runs without the cause differ; how many lie in the range itself
is counted as well. Healthy runs promise nothing, and are counted apart.

Other processes on the machine are context and no finding, also where they were planted. Each run
waits until they leave the cores alone, for `--patience` seconds at most.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Sequence
from typing import Any

import psutil
from harness import argument_parser, in_own_process, print_table
from results_file import save, saved_rows

TOLERANCE = 0.05
QUIET_PERCENT = 10.0
NAMED, KEPT, LEFT_ALONE = 18, 16, 5
"""How many causes must be named, savings be in range, and healthy runs get no finding."""


def main() -> None:
    """Runs each cause in a process of its own, and judges."""
    parser = argument_parser(__doc__)
    parser.add_argument("--only", help="causes whose name has this in it; adds to the file's rows")
    parser.add_argument("--one", help="run one cause here, and print its figures")
    parser.add_argument("--patience", type=float, default=60.0, help="seconds, 60 by default")
    options = parser.parse_args()
    if options.one:
        print(json.dumps(measured(options.one)))
        return
    from planted.causes import CAUSES

    rows: dict[str, Any] = saved_rows(options.json, "runs") if options.only else {}
    names = [name for name in CAUSES if not options.only or options.only in name]
    for name in names:
        wait_for_quiet(options.patience)
        began_s = time.perf_counter()
        (row,) = in_own_process(__file__, ["--one", name], limit_s=300)
        rows[name] = row
        print(f"{name}: {row['found']} {time.perf_counter() - began_s:.0f} s", file=sys.stderr)
    counts = counted(rows)
    print_table(
        "The verdict against the truth",
        ("run", "wall", "first finding", "promised", "saved", "named", "kept"),
        [_shown(name, row) for name, row in rows.items()],
        f"Of {counts['causes']} causes, {counts['named']} named (bar {NAMED}), "
        f"{counts['kept']} savings kept (bar {KEPT}), {counts['inside']} inside the range itself.",
        f"Of {counts['healthy']} healthy runs, {counts['left_alone']} left alone "
        f"(bar {LEFT_ALONE}).",
    )
    save(options.json, __file__, tolerance=TOLERANCE, **counts, runs=rows)
    bars = {"named": NAMED, "kept": KEPT, "left_alone": LEFT_ALONE}
    if len(rows) == len(CAUSES) and any(counts[key] < bar for key, bar in bars.items()):
        sys.exit(1)


def counted(rows: dict[str, dict[str, Any]]) -> dict[str, int]:
    """Returns how many verdicts were right: runs with a cause and healthy ones apart."""
    healthy = [row for name, row in rows.items() if name.startswith("healthy: ")]
    planted = [row for name, row in rows.items() if not name.startswith("healthy: ")]
    return {
        "causes": len(planted),
        "named": sum(row["is_named"] for row in planted),
        "promised": sum(row["promised_s"] is not None for row in planted),
        "kept": sum(row["is_kept"] for row in planted),
        "inside": sum(_is_inside(row["promised_s"], row["saved_s"]) for row in planted),
        "healthy": len(healthy),
        "left_alone": sum(row["is_named"] for row in healthy),
    }


def _is_inside(promised_s: Sequence[float | None] | None, saved_s: float) -> bool:
    if promised_s is None:
        return False
    low_s, high_s = promised_s
    return (low_s or 0.0) <= saved_s and (high_s is None or saved_s <= high_s)


def wait_for_quiet(patience_s: float) -> None:
    """Waits until the machine's cores idle for three seconds."""
    until_s = time.perf_counter() + patience_s
    while time.perf_counter() < until_s and psutil.cpu_percent(3.0) > QUIET_PERCENT:
        pass


def measured(name: str) -> dict[str, Any]:
    """Runs a cause: without, with, without it."""
    from planted.causes import CAUSES, quick

    cause = CAUSES[name]
    quick(())  # what a process's first fit sets up
    before_s, _ = _timed(cause.removed)
    others = OthersUse()
    wall_s, summary = _timed(cause.planted)
    others_percent = others.percent()
    findings = summary.findings
    after_s, _ = _timed(cause.removed) if cause.codes else (before_s, None)
    finding = next((candidate for candidate in findings if candidate.severity != "info"), None)
    if finding is None and cause.codes:  # a remark may name it too
        finding = next((candidate for candidate in findings if candidate.code in cause.codes), None)
    saving = finding.saving if finding else None
    saved_s, noise_s = wall_s - (before_s + after_s) / 2, abs(before_s - after_s)
    return {
        "wall_s": wall_s,
        "without_s": [before_s, after_s],
        "saved_s": saved_s,
        "found": finding.code if finding else None,
        "promised_s": [saving.low_s, saving.high_s] if saving else None,
        "basis": saving.basis if saving else None,
        "is_named": (finding.code in cause.codes) if finding else not cause.codes,
        "is_kept": _is_kept(saving, saved_s, TOLERANCE * wall_s + noise_s)
        if cause.codes
        else finding is None,
        "parts_s": {**summary.breakdown.parts, "unknown": summary.breakdown.unknown_s}
        if summary.breakdown
        else None,
        "others_percent": others_percent,
        "findings": [candidate.code for candidate in summary.findings],
    }


class OthersUse:
    """How much of the cores others use from here on, measured without the package."""

    def __init__(self) -> None:
        self._began = self._read()

    def percent(self) -> float:
        """Returns the share of all cores."""
        (busy, total, own), (busy_then, total_then, own_then) = self._read(), self._began
        return 100 * (busy - busy_then - own + own_then) / (total - total_then)

    def _read(self) -> tuple[float, float, float]:
        times, own = psutil.cpu_times(), psutil.Process().cpu_times()
        total = sum(times) - getattr(times, "guest", 0.0) - getattr(times, "guest_nice", 0.0)
        idle = times.idle + getattr(times, "iowait", 0.0)
        return total - idle, total, own.user + own.system


def _timed(run: Any) -> tuple[float, Any]:
    import gc

    import keras_gpukit as gpukit

    gc.collect()
    with tempfile.TemporaryDirectory() as logs:
        monitor = gpukit.Monitor(logs, verbose=0)
        began_s = time.perf_counter()
        run([monitor])
        wall_s = time.perf_counter() - began_s
    summary = monitor.summary
    return (summary.throughput.wall_s or wall_s), summary


def _is_kept(saving: Any, saved_s: float, slack_s: float) -> bool:
    if saving is None:
        return False
    high_s = saving.of_s if saving.high_s is None else saving.high_s
    return bool(saving.low_s - slack_s <= saved_s <= high_s + slack_s)


def _shown(name: str, row: dict[str, Any]) -> Sequence[str]:
    low_s, high_s = row["promised_s"] or (None, None)
    promised = (
        "" if low_s is None else f"{low_s:.1f} to {'?' if high_s is None else f'{high_s:.1f}'} s"
    )
    return (
        name,
        f"{row['wall_s']:.1f} s",
        row["found"] or "none",
        promised,
        f"{row['saved_s']:.1f} s",
        "yes" if row["is_named"] else "no",
        "yes" if row["is_kept"] else "no",
    )


if __name__ == "__main__":
    main()
