"""Whether a planted straggler among four workers is named with its cause, and none without one.

Four processes train in step, by `MultiWorkerMirroredStrategy` on this machine. In each trial one of
them has a slow input, slow work or slow links, another one each time; in five trials none has. The
chief's verdict must name that worker with that cause; the other way round, it must name none. Half
of the even trials, and those with slow links, go through proxies that delay what they pass on.

What the finding promises to save is held against the even trials: a step's mean time in them, for
all steps. The range is widened by a twentieth of the run, and by as much as even trials differ.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from harness import argument_parser, print_table
from planted.slow_links import SlowLinks, free_ports
from results_file import save

WORKERS = 4
DELAY_S = 0.005
"""Each way, of the links of a worker whose network is slow."""
NAMED, OF = 11, 12
TOLERANCE = 0.05
WARM_UP = "even-warm-up"
"""The first trial of each set of processes, which is not counted."""
LIMIT_S = 1200.0
"""For all trials of one set of processes."""
WORKER = Path(__file__).parent / "planted" / "one_of_four.py"
DIRECTLY = (
    *("input-0", "compute-0", "even-a", "input-1", "compute-1", "input-2", "even-b"),
    *("compute-2", "input-3", "compute-3", "even-c"),
)
BY_PROXY = ("even-d", *(f"network-{culprit}" for culprit in range(WORKERS)), "even-e")


def main() -> None:
    """Runs the trials, and judges the verdicts."""
    parser = argument_parser(__doc__)
    parser.add_argument("--only", help="trials whose name has this in it")
    options = parser.parse_args()
    rows: dict[str, Any] = {}
    for trials, proxied in ((DIRECTLY, False), (BY_PROXY, True)):
        chosen = [name for name in trials if not options.only or options.only in name]
        rows |= _with_savings(_run([WARM_UP, *chosen], proxied)) if chosen else {}
    planted = {name: row for name, row in rows.items() if not name.startswith("even")}
    counts = {
        "named": sum(row["is_right"] for row in planted.values()),
        "quiet": sum(row["is_right"] for name, row in rows.items() if name not in planted),
        "kept": sum(bool(row["is_kept"]) for row in planted.values()),
        "inside": sum(bool(row["is_inside"]) for row in planted.values()),
        "planted": len(planted),
        "even": len(rows) - len(planted),
    }
    print_table(
        "Stragglers among four workers",
        ("trial", "step", "exchange", "the chief's verdict", "promised", "saved", "right"),
        [_shown(name, row) for name, row in rows.items()],
        "Named {named} of {planted} (bar {} of {}), "
        "none named in {quiet} of {even} even trials (bar: all).".format(NAMED, OF, **counts),
        "Savings in range: {kept} of {planted}, without slack {inside}.".format(**counts),
    )
    save(options.json, __file__, delay_ms=1e3 * DELAY_S, **counts, trials=rows)
    if not options.only and (counts["named"] < NAMED or counts["quiet"] < counts["even"]):
        sys.exit(1)


def _run(trials: Sequence[str], proxied: bool) -> dict[str, Any]:
    """Runs trials one after the other, in the same four processes."""
    ports = free_ports(WORKERS)
    links = SlowLinks(ports)
    direct = [f"127.0.0.1:{port}" for port in ports]
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        processes = [
            _start(folder, index, links.addresses(index) if proxied else direct, trials)
            for index in range(WORKERS)
        ]
        try:
            until_s = time.monotonic() + LIMIT_S
            return {
                name: _one(name, folder, links, processes, until_s) | {"by_proxy": proxied}
                for name in trials
            }
        finally:
            for process in processes:
                process.kill()
                process.wait()
            links.close()


def _with_savings(rows: dict[str, Any]) -> dict[str, Any]:
    """Leaves the warm-up out, and adds what each straggler cost: the time beyond an even trial."""
    del rows[WARM_UP]
    steps_s = {name: statistics.fmean(row["step_ms"]) / 1e3 for name, row in rows.items()}
    even_s = [step_s for name, step_s in steps_s.items() if name.startswith("even")]
    for name, row in rows.items():
        row["saved_s"] = row["is_kept"] = row["is_inside"] = None
        if name.startswith("even") or not even_s or row["promised_s"] is None:
            continue
        count = row["steps"]
        low_s, high_s = row["promised_s"]
        saved_s = (steps_s[name] - statistics.median(even_s)) * count
        slack_s = TOLERANCE * row["wall_s"] + (max(even_s) - min(even_s)) * count
        row["saved_s"] = saved_s
        row["is_kept"] = low_s - slack_s <= saved_s <= (high_s or row["wall_s"]) + slack_s
        row["is_inside"] = low_s <= saved_s <= (high_s or row["wall_s"])
    return rows


def _start(
    folder: Path, index: int, addresses: Sequence[str], trials: Sequence[str]
) -> subprocess.Popen[bytes]:
    config = {"cluster": {"worker": addresses}, "task": {"type": "worker", "index": index}}
    with open(folder / f"worker-{index}.log", "wb") as log:
        return subprocess.Popen(
            [sys.executable, str(WORKER), str(folder), str(index), *trials],
            env={**os.environ, "TF_CONFIG": json.dumps(config), "CUDA_VISIBLE_DEVICES": "-1"},
            stdout=log,
            stderr=subprocess.STDOUT,
        )


def _one(
    name: str,
    folder: Path,
    links: SlowLinks,
    processes: Sequence[subprocess.Popen[bytes]],
    until_s: float,
) -> dict[str, Any]:
    kind, _, culprit = name.partition("-")
    links.slow, links.delay_s = (int(culprit), DELAY_S) if kind == "network" else (None, 0.0)
    (folder / f"go-{name}").touch()
    while not all((folder / f"done-{name}-{index}").exists() for index in range(WORKERS)):
        if time.monotonic() > until_s or any(process.poll() for process in processes):
            logs = [(folder / f"worker-{index}.log").read_text()[-2000:] for index in range(4)]
            raise RuntimeError(f"{name} did not end:\n" + "\n--\n".join(logs))
        time.sleep(0.1)
    row: dict[str, Any] = json.loads((folder / f"{name}.json").read_text())
    found = row["found"] or ""
    row["is_right"] = not found
    if kind != "even":
        row["is_right"] = found.startswith(f"Worker {culprit} ") and kind in found
    print(f"{name}: {found or 'none'}", file=sys.stderr)
    return row


def _shown(name: str, row: dict[str, Any]) -> Sequence[str]:
    low_s, high_s = row["promised_s"] or (None, None)
    saved_s = row["saved_s"]
    return (
        name,
        f"{row['median_step_ms']:.0f} ms",
        f"{row['exchange_ms']:.1f} ms",
        row["found"] or "none",
        "" if low_s is None else f"{low_s:.1f} to {high_s:.1f} s",
        "" if saved_s is None else f"{saved_s:.1f} s",
        "yes" if row["is_right"] else "no",
    )


if __name__ == "__main__":
    main()
