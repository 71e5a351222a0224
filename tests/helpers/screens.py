"""What a terminal displays of its output, and of a run."""

import re
from typing import Any

from rich.console import Console

from keras_gpukit.records import RunSummary
from keras_gpukit.reports.console import print_summary

_PARTS = re.compile(r"\x1b\[(?P<count>[\d;?]*)(?P<kind>[A-Za-z])|(?P<other>.)", re.DOTALL)


def panel(summary: RunSummary, width: int = 80, **options: Any) -> str:
    """What is printed of a run, in a terminal of a width."""
    with (console := Console(width=width)).capture() as shown:
        print_summary(summary, console, **options)
    return shown.get()


def displayed(output: str) -> list[str]:
    """The lines of a wide terminal after some output: CR, LF, backspace, erasing, cursor up."""
    lines, row, column = [""], 0, 0
    for part in _PARTS.finditer(output):
        kind, other = part["kind"], part["other"]
        if kind == "A":
            row = max(row - int(part["count"] or 1), 0)
        elif kind == "K":
            lines[row] = "" if part["count"] == "2" else lines[row][:column]
        elif other == "\r":
            column = 0
        elif other == "\b":
            column = max(column - 1, 0)
        elif other == "\n":
            row, column = row + 1, 0
            lines += [""] * (row + 1 - len(lines))
        elif other:
            line = lines[row].ljust(column)
            lines[row] = line[:column] + other + line[column + 1 :]
            column += 1
    return [line.rstrip() for line in lines[: len(lines) - (not lines[-1])]]
