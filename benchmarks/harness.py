"""What benchmarks share: their arguments, measuring in turns, own processes, and tables.

TensorFlow is not imported here: some scripts start it only in other processes.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

# Inherited by the processes that benchmarks start.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")


def argument_parser(doc: str | None) -> argparse.ArgumentParser:
    """Returns a parser with the argument that every benchmark has, for a script's docstring."""
    parser = argparse.ArgumentParser(description=(doc or "").split("\n")[0])
    parser.add_argument("--json", help="write the figures to this file")
    return parser


def in_turns(variants: Mapping[str, Callable[[], Any]], rounds: int) -> dict[str, list[Any]]:
    """Runs each variant once a round, in random order, so that drift affects all alike."""
    results: dict[str, list[Any]] = {name: [] for name in variants}
    for number in range(rounds):
        for name in random.Random(number).sample(sorted(variants), len(variants)):
            results[name].append(variants[name]())
    return results


def in_own_process(
    script: str,
    arguments: Iterable[str],
    limit_s: float | None = None,
    environment: Mapping[str, str] | None = None,
    *,
    quiet: bool = False,
) -> list[dict[str, Any]]:
    """Runs a script in a new process, since devices are settled when TensorFlow starts.

    Returns the JSON objects that it printed, one a line. Raises a `SubprocessError` if it ended by
    an error, or not in time. If `quiet`, what it says on standard error is not shown.
    """
    done = subprocess.run(
        [sys.executable, script, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL if quiet else None,
        text=True,
        check=True,
        timeout=limit_s,
        env={**os.environ, **(environment or {})},
    )
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def print_table(
    title: str, headings: Sequence[str], rows: Iterable[Sequence[str]], *notes: str
) -> None:
    """Prints a table, and lines of text below it."""
    table = Table(*headings, title=title)
    for row in rows:
        table.add_row(*row)
    console = Console(width=150)
    console.print(table)
    for note in notes:
        console.print(note)
