"""Runs the evidence kit.

    python -m benchmarks.gpu [PART[:SLICE] …] --out benchmarks/results/gpu --minutes 11

Runs what fits the time, most important first. Each slice of a part writes one JSON file after each
case, so that nothing is lost if the machine is taken away. Started again, it runs the slices that
are not complete; a complete one runs again if it is named.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape

from benchmarks.gpu.part import ORDER, error_of, load_part
from benchmarks.gpu.results import FOLDER, Result, describe_device, load_all, outcomes
from benchmarks.gpu.runner import Runner, Skipped

VERDICTS = {True: "[green]holds[/]", False: "[red]FALSE[/]"}


def main() -> int:
    """Returns 0 if every slice that ran is complete and no claim is false, else 1."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("names", nargs="*", metavar="PART[:SLICE]", help=", ".join(ORDER))
    parser.add_argument("--out", type=Path, default=FOLDER, help="folder of the results")
    parser.add_argument("--minutes", type=float, default=11.0, help="time for all of it together")
    parser.add_argument("--small", action="store_true", help="seconds a slice; proves nothing")
    options = parser.parse_args()
    wanted = [f"{name}:" for name in options.names]
    for name in wanted:
        if not any(f"{full_name}:".startswith(name) for full_name in ORDER):
            parser.error(f"no such part: {name[:-1]}")
    chosen = [full_name for full_name in ORDER if f"{full_name}:".startswith(tuple(wanted) or "")]
    device, method = prepare()
    runner = Runner(
        options.out, device, minutes=options.minutes, small=options.small, method=method
    )
    console = Console(highlight=False)
    good = [show(console, ended, options.out) for ended in runner.run(chosen, again=bool(wanted))]
    return 0 if all(good) else 1


def prepare() -> tuple[dict[str, Any], str]:
    """Loads TensorFlow, and returns what the machine is and how processes start.

    Forks of this process need not load TensorFlow, which takes seconds. Where a fork sees no GPU,
    and a new process does, processes are started from scratch.
    """
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")  # it crashes when a CPU's memory runs out
    import keras  # noqa: F401
    import tensorflow  # noqa: F401

    forked = describe_device("fork")
    if forked and forked["kind"] == "gpu":
        return forked, "fork"
    spawned = describe_device("spawn")
    if spawned and (not forked or spawned["kind"] == "gpu"):
        return spawned, "spawn"
    if forked is None:
        raise RuntimeError("TensorFlow does not start on this machine.")
    return forked, "fork"


def show(console: Console, ended: Result | Skipped, folder: Path) -> bool:
    """Prints how a slice ended, and what its part says now; returns whether all is well."""
    if isinstance(ended, Skipped):
        console.print(f"[bold]{ended.name}[/]: skipped, {ended.reason}")
        return True
    console.print(
        f"[bold]{ended['part']}:{ended['slice']}[/]: {ended['status']} after "
        f"{ended['took_s']:.0f} s on a {ended['device']['kind'].upper()}"
    )
    if "why" in ended:
        console.print(escape(ended["why"]))
    for case, value in ended["measured"].items():
        if error := error_of(value):
            console.print(f"  [red]{escape(case)}[/]: {escape(error)}")
    part = load_part(ended["part"])
    judged = outcomes(part, load_all(folder, part.name))
    for claim, outcome in judged.items():
        if outcome.holds is not None:
            console.print(f"  {VERDICTS[outcome.holds]} {claim}: {escape(outcome.evidence)}")
    wrong = any(outcome.holds is False for outcome in judged.values())
    return ended["status"] == "complete" and not wrong


if __name__ == "__main__":
    raise SystemExit(main())
