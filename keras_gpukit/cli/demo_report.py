"""Output of the demo: the code that runs, and the comparison of both runs."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.syntax import Syntax
from rich.table import Table
from rich.text import Text

from keras_gpukit.records.run import RunSummary
from keras_gpukit.reports import units


def print_code(function: Callable[..., Any], console: Console) -> None:
    """Prints a function's own source, so that what is shown cannot differ from what runs."""
    source = inspect.getsource(function).rstrip()
    highlighted = Syntax(source, "python", theme="ansi_dark").highlight(source)
    console.print(highlighted, soft_wrap=True)


def comparison(written: RunSummary, advised: RunSummary) -> RenderableType:
    """Returns a table of both runs' figures, and the speed-up."""
    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0))
    table.add_column()
    for heading in ("as written", "as advised"):
        table.add_column(heading, justify="right")
    names = ("examples/s", "step time", "input stall", "whole run")
    for row in zip(names, _figures(written), _figures(advised), strict=True):
        table.add_row(*row)
    return Group(table, *_speed_up(written, advised))


def _figures(summary: RunSummary) -> tuple[str, ...]:
    wall_s = summary.throughput.wall_s if summary.throughput else None
    return (
        units.known(summary.examples_per_s, units.number),
        units.known(summary.step_time_s, units.duration),
        units.known(summary.input_stall_fraction, units.percentage),
        units.known(wall_s, units.duration),
    )


def _speed_up(written: RunSummary, advised: RunSummary) -> tuple[RenderableType, ...]:
    if not written.examples_per_s or not advised.examples_per_s:
        return ()
    factor = units.number(round(advised.examples_per_s / written.examples_per_s, 1))
    return (
        Text(f"\n{factor}× the examples per second, with the same model.", style="bold"),
        Text(
            "The rates exclude each epoch's first step. The whole run includes everything: "
            "TensorFlow's start-up and the first read of all images.",
            style="dim",
        ),
    )
