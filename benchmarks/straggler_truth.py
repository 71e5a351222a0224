"""Whether a planted straggler among four workers is named with its cause, and none without one.

Four processes train in step, by `MultiWorkerMirroredStrategy` on this machine. In each trial one of
them has a slow input, slow work or slow links, another one each time; in five trials none has. The
chief's verdict must name that worker with that cause; the other way round, it must name none. Half
of the even trials, and those with slow links, go through proxies that delay what they pass on.
"""

from __future__ import annotations

import json
import os
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
LIMIT_S = 900.0
"""For all trials of one set of processes."""
WORKER = Path(__file__).parent / "planted" / "one_of_four.py"
WORDS = {"input": "input", "compute": "compute", "network": "network"}
DIRECTLY = [f"{kind}-{culprit}" for culprit in range(WORKERS) for kind in ("input", "compute")]
DIRECTLY[2:2] = ["even-a"]
DIRECTLY[6:6] = ["even-b"]
DIRECTLY += ["even-c"]
BY_PROXY = ["even-d", *(f"network-{culprit}" for culprit in range(WORKERS)), "even-e"]


def main() -> None:
    """Runs the trials, and judges the verdicts."""
    parser = argument_parser(__doc__)
    parser.add_argument("--only", help="trials whose name has this in it")
    options = parser.parse_args()
    rows: dict[str, Any] = {}
    for trials, proxied in ((DIRECTLY, False), (BY_PROXY, True)):
        chosen = [name for name in trials if not options.only or options.only in name]
        rows |= _run(chosen, proxied) if chosen else {}
    planted = {name: row for name, row in rows.items() if not name.startswith("even")}
    named = sum(row["is_right"] for row in planted.values())
    quiet = sum(row["is_right"] for name, row in rows.items() if name not in planted)
    print_table(
        "Stragglers among four workers",
        ("trial", "step", "exchange", "the chief's verdict", "saves", "right"),
        [_shown(name, row) for name, row in rows.items()],
        f"Named {named} of {len(planted)} (bar {NAMED} of {OF}), "
        f"none named in {quiet} of {len(rows) - len(planted)} even trials (bar: all).",
    )
    if options.json:
        save(options.json, __file__, delay_ms=1e3 * DELAY_S, named=named, quiet=quiet, trials=rows)
    if not options.only and (named < NAMED or quiet < len(rows) - len(planted)):
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
    named = found.startswith(f"Worker {culprit} ") and WORDS.get(kind, "?") in found
    row["is_right"] = named if kind in WORDS else not found
    print(f"{name}: {found or 'none'}", file=sys.stderr)
    return row


def _shown(name: str, row: dict[str, Any]) -> Sequence[str]:
    low, high = row["saves"] or (None, None)
    return (
        name,
        f"{row['median_step_ms']:.0f} ms",
        f"{row['exchange_ms']:.1f} ms",
        row["found"] or "none",
        "" if low is None else f"{100 * low:.0f} to {100 * high:.0f} %",
        "yes" if row["is_right"] else "no",
    )


if __name__ == "__main__":
    main()
