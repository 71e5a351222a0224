"""Runs the evidence kit.

    python -m benchmarks.gpu [PART …] --out benchmarks/results/gpu --minutes 18

Runs what fits the time, most important first. Each part writes one JSON file as soon as it ends, so
that nothing is lost if the machine is taken away. Started again, it skips the parts that are
complete, except those that are named.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from rich.console import Console
from rich.markup import escape

from benchmarks.gpu.own_process import call_in_own_process
from benchmarks.gpu.part import ORDER
from benchmarks.gpu.results import FOLDER, Result, describe_device
from benchmarks.gpu.runner import Runner, Skipped

VERDICTS = {True: "[green]holds[/]", False: "[red]FALSIFIED[/]", None: "not judged"}


def main() -> int:
    """Returns 0 if every part that ran is complete and no claim is falsified, else 1."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(ORDER))
    parser.add_argument("--out", type=Path, default=FOLDER, help="folder of the results")
    parser.add_argument("--minutes", type=float, default=18.0, help="time for all parts together")
    parser.add_argument("--small", action="store_true", help="seconds a part; proves nothing")
    arguments = parser.parse_args()
    if unknown := set(arguments.parts) - set(ORDER):
        parser.error(f"no such part: {', '.join(sorted(unknown))}")
    device = call_in_own_process(describe_device)
    runner = Runner(arguments.out, device, minutes=arguments.minutes, small=arguments.small)
    console = Console(highlight=False)
    good = True
    for ended in runner.run(arguments.parts or ORDER, again=bool(arguments.parts)):
        good &= show(console, ended)
    return 0 if good else 1


def show(console: Console, ended: Result | Skipped) -> bool:
    """Prints how a part ended, and returns whether all is well."""
    if isinstance(ended, Skipped):
        console.print(f"[bold]{ended.name}[/]: skipped, {ended.reason}")
        return True
    console.print(
        f"[bold]{ended['part']}[/]: {ended['status']} after {ended.get('took_s', 0):.0f} s "
        f"on a {ended['device']['kind'].upper()}"
    )
    if "traceback" in ended:
        console.print(escape(ended["traceback"]))
    outcomes = ended.get("outcomes", {})
    for claim, outcome in outcomes.items():
        console.print(f"  {VERDICTS[outcome['holds']]} {claim}: {escape(outcome['evidence'])}")
    complete = ended["status"] == "complete"
    return complete and all(outcome["holds"] is not False for outcome in outcomes.values())


if __name__ == "__main__":
    raise SystemExit(main())
