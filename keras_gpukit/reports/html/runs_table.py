"""A table of many runs, with the data for comparing two of them in the browser."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from keras_gpukit.records.machine import mean_busy_percent
from keras_gpukit.records.report import RunReport
from keras_gpukit.records.run import RunSummary
from keras_gpukit.reports import units
from keras_gpukit.reports.html import words
from keras_gpukit.reports.html.run_comparison import run_stages, stage_names_of, stage_words
from keras_gpukit.reports.html.run_names import common_prefix, run_ids

_UNKNOWN = "unknown"
_SEVERITIES = ("critical", "warning", "info", "good", "unknown")


@dataclass(frozen=True)
class Cell:
    """A cell of the table.

    Attributes:
        text: Text of the cell.
        value: Sort key; None if the cell is sorted by its text, or the value is unknown.
        badge: CSS class and text of a badge before the text; None without a badge.
        part: Share of a whole, 0 to 1, drawn as a bar; None without a bar.
    """

    text: str
    value: float | None = None
    badge: tuple[str, str] | None = None
    part: float | None = None

    @property
    def words(self) -> str:
        """Plain text of the cell; the badge's text if it has no other."""
        return self.text or (self.badge[1] if self.badge else "")


@dataclass(frozen=True)
class Row:
    """A row of the table: one run; `name` is without the prefix that all names share."""

    id: str
    href: str
    name: str
    full_name: str
    cells: tuple[Cell, ...]


@dataclass(frozen=True)
class RunsTable:
    """A table of runs.

    Attributes:
        prefix: Prefix that all names share; the table leaves it out.
        columns: Headings of the columns.
        rows: Rows of the table, the newest run first.
        data: JSON object for comparisons: each run's name, figures, settings and stages by run
            id, and the names of all stages in their order.
    """

    prefix: str
    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    data: str


def runs_table(
    runs: Sequence[RunReport], href: Callable[[RunReport], str | None] = lambda run: None
) -> RunsTable:
    """Returns a table of runs, newest first, with the data to compare them.

    `href` returns the URL of the page that shows a run; None if it is shown in this page.
    """
    names = [run.name for run in runs]
    prefix = common_prefix(names)
    ids = run_ids(runs)
    told = [settings(run) for run in runs]
    cells = [_cells(run) for run in runs]
    _mark_best(cells)
    # Leave out figures that no run has, such as GPU figures on a machine without a GPU.
    kept = [name for name in cells[0] if any(each[name].text != _UNKNOWN for each in cells)]
    differ = differing(told)
    rows = tuple(
        Row(
            id=name,
            href=href(run) or f"#{name}",
            name=run.name[len(prefix) :],
            full_name=run.name,
            cells=(
                *(figures[column] for column in kept),
                *(Cell(each.get(column, _UNKNOWN)) for column in differ),
            ),
        )
        for name, run, figures, each in zip(ids, runs, cells, told, strict=True)
    )
    compared = {
        row.id: {
            "name": row.name,
            "figures": [[name, figures[name].words, figures[name].value] for name in kept],
            "settings": each,
            "stages": {name: stage_words(run, stage) for name, stage in run_stages(run).items()},
        }
        for row, run, figures, each in zip(rows, runs, cells, told, strict=True)
    }
    data = {"runs": compared, "stages": stage_names_of(runs)}
    return RunsTable(prefix, (*kept, *differ), rows, json.dumps(data, separators=(",", ":")))


def _cells(run: RunReport) -> dict[str, Cell]:
    summary, verdict = run.summary, words.verdict(run)
    workers = summary.environment.workers
    busy = mean_busy_percent(summary.gpus)
    busy_fraction = None if busy is None else busy / 100
    peak = max(summary.memory_peak_bytes.values(), default=None)
    lasted_s = (
        None if run.began_s is None or run.ended_s is None else max(run.ended_s - run.began_s, 0.0)
    )
    wall_s = summary.throughput.wall_s if summary.throughput else None
    stall = summary.input_stall_fraction
    severity = float(_SEVERITIES.index(verdict.severity))
    return {
        "verdict": Cell(verdict.headline, severity, (verdict.severity, verdict.severity)),
        "step time": _cell(summary.step_time_s, units.duration),
        "input stall": _cell(stall, units.percentage, part=stall),
        "examples/s": _cell(
            summary.examples_per_s,
            lambda rate: units.number(rate) + (" on each worker" if workers > 1 else ""),
        ),
        "GPU busy": _cell(busy_fraction, units.percentage, part=busy_fraction),
        "peak memory": _cell(peak, units.size),
        "steps": _cell(summary.steps, units.number),
        "ran for": _cell(lasted_s if wall_s is None else wall_s, units.duration),
        "state": Cell("", badge=(run.state, words.STATES[run.state])),
        "began": Cell(words.moment(run.began_s), run.began_s),
    }


def _mark_best(cells: list[dict[str, Cell]]) -> None:
    """Marks the run with the most examples per second."""
    rates = [each["examples/s"].value or 0.0 for each in cells]
    if any(rates):
        best = cells[rates.index(max(rates))]
        best["examples/s"] = replace(best["examples/s"], badge=("good", "best"))


def _cell(value: float | None, text: Callable[[float], str], part: float | None = None) -> Cell:
    if value is None:
        return Cell(_UNKNOWN)
    return Cell(text(value), float(value), part=None if part is None else min(max(part, 0.0), 1.0))


def settings(run: RunReport) -> dict[str, str]:
    """Returns a run's settings by name, the most frequently changed settings first."""
    summary = run.summary
    versions = summary.environment.versions
    setup = dict(words.setup(summary))
    told = {
        "call": run.phase,
        "examples per step": _examples_per_step(summary),
        **{name: value for name, value in setup.items() if name not in versions},
        **versions,
    }
    return {name: value for name, value in told.items() if value is not None}


def differing(runs: Sequence[dict[str, str]]) -> tuple[str, ...]:
    """Returns the names of settings that differ between runs, in the settings' order."""
    names = dict.fromkeys(name for each in runs for name in each)
    return tuple(name for name in names if len({each.get(name) for each in runs}) > 1)


def _examples_per_step(summary: RunSummary) -> str | None:
    """Returns the batch size of a step, computed from examples per second and the step time."""
    rate, step_s = summary.examples_per_s, summary.step_time_s
    if not rate or not step_s:
        return None
    examples = rate * step_s
    # A smaller last batch lowers the mean slightly below the batch size.
    whole = abs(examples - round(examples)) <= 0.01 * examples
    return f"{examples:,.0f}" if whole else units.number(examples)
