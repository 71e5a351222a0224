"""Many runs: a table, the data for comparing two of them in the browser, their step times."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from keras_gpukit.records.comparison import MOST_COMPARED
from keras_gpukit.records.machine import mean_busy_percent
from keras_gpukit.records.report import RunReport
from keras_gpukit.reports import comparison, units
from keras_gpukit.reports.html.chart import (
    PALETTE,
    Chart,
    Omitted,
    Trace,
    axis,
    draw,
    label,
    scaled,
)
from keras_gpukit.reports.html.over_time import TimeAxis, corners
from keras_gpukit.reports.run_words import STATES, headline_of
from keras_gpukit.reports.tables import Table
from keras_gpukit.rules.comparing.compare import compare_runs
from keras_gpukit.rules.comparing.pairs import settings_of
from keras_gpukit.rules.savings import input_of_run

# Lines must differ by more than their colour.
_SYMBOLS = ("circle", "square", "diamond", "triangle-up", "cross", "x")
_SEPARATORS = "-_.,= "
_LEAST_PREFIX = 8
"""Characters; shorter shared beginnings of the last part of a path are kept for readability."""


def common_prefix(names: Sequence[str]) -> str:
    """Returns the prefix that can be left out of all names; "" without such a prefix.

    The prefix has whole folders, then a beginning of the last part of the path that ends in a
    separator, if that is long enough: all of "resnet50-imagenet-", but nothing of "lr-".
    """
    if len(set(names)) < 2:
        return ""
    # A prefix of the first and last name in sort order is a prefix of all names between them.
    first, last = min(names), max(names)
    pairs = zip(first, last, strict=False)
    length = next((place for place, (a, b) in enumerate(pairs) if a != b), len(first))
    common = first[:length]
    folders = common.rfind("/") + 1
    within = max(common.rfind(separator) for separator in _SEPARATORS) + 1
    return common[: within if within - folders >= _LEAST_PREFIX else folders]


def step_times_chart(runs: Sequence[RunReport]) -> Chart | Omitted:
    """Returns a chart of the step times of all runs that have a time series."""
    drawn = [
        (run, run.steps)
        for run in runs
        if run.steps
        and len(run.steps.time_s) > 1
        and run.steps.figures["step_time_s"].overall is not None
    ]
    if len(drawn) < 2:
        return Omitted("fewer than two of the newest runs have it over time")
    longest_s = max(series.time_s[-1] - (run.began_s or 0.0) for run, series in drawn)
    cut = len(common_prefix([run.name for run in runs]))
    traces, rows, means = [], [], []
    for place, (run, series) in enumerate(drawn):
        time, name = TimeAxis(run.began_s or series.time_s[0], longest_s), run.name[cut:]
        band = series.figures["step_time_s"]
        values = scaled(band.mean, 1e-3)
        line = tuple(corners(series))
        symbol, color = _SYMBOLS[place % len(_SYMBOLS)], PALETTE[place % len(PALETTE)]
        trace: Trace = {
            "type": "scatter",
            "x": [time.place(time_s) for time_s, _ in line],
            "y": [None if point is None else values[point] for _, point in line],
            "name": label(name, 40),
            # Dashes would hide the short pieces of a line between two epochs.
            "mode": "lines+markers",
            "marker": {"symbol": symbol, "size": 5, "maxdisplayed": 40},
            "line": {"width": 2, "shape": "vh", "color": color},
            "hovertemplate": "%{y:.3~f} ms",
        }
        traces.append(trace)
        known = [
            units.known(value, lambda value: units.number(1e3 * value), "")
            for value in (band.lowest, band.overall, band.highest)
        ]
        means.append(f"{name} {known[1]} ms")
        rows.append((name, *known))
    drawing = draw(traces, xaxis=time.layout(), yaxis=axis("ms per step", rangemode="tozero"))
    table = Table(("run", "lowest (ms)", "mean (ms)", "highest (ms)"), tuple(rows))
    return Chart(f"On average: {', '.join(means)}.", table, drawing)


_UNKNOWN = "unknown"
_SEVERITIES = ("critical", "warning", "info", "good", "unknown")


class RunCell(NamedTuple):
    """A cell of the table.

    Attributes:
        value: Sort key; None if the cell is sorted by its text, or the value is unknown.
        badge: CSS class and text of a badge before the text; None without a badge.
        part: Share of a whole, 0 to 1, drawn as a bar; None without a bar.
    """

    text: str
    value: float | None = None
    badge: tuple[str, str] | None = None
    part: float | None = None


class RunRow(NamedTuple):
    """A row of the table: one run; `name` is without the prefix that all names share."""

    id: str
    href: str
    name: str
    full_name: str
    cells: tuple[RunCell, ...]


class RunsTable(NamedTuple):
    """A table of runs, the newest first, without the prefix that all names share.

    The data are the comparisons of pairs of runs, by their ids, the older run first. Of two runs
    alone, `lead` is the comparison: its headline and the reasons.
    """

    prefix: str
    columns: tuple[str, ...]
    rows: tuple[RunRow, ...]
    data: dict[str, Any]
    lead: dict[str, Any] | None = None


def run_id(run: RunReport) -> str:
    """Returns a run's id for links; it does not depend on other runs in the report.

    The id is the same whether the report covers the run's folder or a folder above it.
    """
    key = f"{run.began_s} {run.name.rpartition('/')[2]}".encode("utf-8", "replace")
    return f"run-{hashlib.sha256(key).hexdigest()[:10]}"


def run_ids(runs: Sequence[RunReport]) -> tuple[str, ...]:
    """Returns a unique id for each run, also if records are copies of each other."""
    seen: dict[str, int] = {}
    ids = []
    for run in runs:
        name = run_id(run)
        seen[name] = number = seen.get(name, 0) + 1
        ids.append(name if number == 1 else f"{name}-{number}")
    return tuple(ids)


def runs_table(
    runs: Sequence[RunReport], href: Callable[[RunReport], str | None] = lambda run: None
) -> RunsTable:
    """Returns a table of runs, newest first, with the data to compare them.

    `href` returns the URL of the page that shows a run; None if it is shown in this page.
    """
    prefix = common_prefix([run.name for run in runs])
    all_settings = [settings_of(run) for run in runs]
    cells = [_cells(run) for run in runs]
    best = max(cells, key=lambda row: row["examples/s"].value or 0.0)
    if best["examples/s"].value:
        best["examples/s"] = best["examples/s"]._replace(badge=("good", "best"))
    # Leave out figures that no run has, such as GPU figures on a machine without a GPU.
    kept = [name for name in cells[0] if any(row[name].text != _UNKNOWN for row in cells)]
    names = dict.fromkeys(name for settings in all_settings for name in settings)
    differ = [name for name in names if len({settings.get(name) for settings in all_settings}) > 1]
    ids, rows = run_ids(runs), []
    for name, run, figures, settings in zip(ids, runs, cells, all_settings, strict=True):
        short = run.name[len(prefix) :]
        shown = [figures[column] for column in kept]
        shown += [RunCell(settings.get(column, _UNKNOWN)) for column in differ]
        rows.append(RunRow(name, href(run) or f"#{name}", short, run.name, tuple(shown)))
    data = _compared(runs, ids, len(prefix))
    are_fits = all(run.phase == "fit" and run.is_chief for run in runs)
    lead = next(iter(data["pairs"].values())) if len(runs) == 2 and are_fits else None
    return RunsTable(prefix, (*kept, *differ), tuple(rows), data, lead)


def _compared(runs: Sequence[RunReport], ids: Sequence[str], cut: int) -> dict[str, Any]:
    """Returns the comparisons of the newest runs as text and tables."""
    newest = [
        (name, replace(run, name=run.name[cut:])) for name, run in zip(ids, runs, strict=True)
    ][:MOST_COMPARED]
    pairs = {}
    for (newer_id, newer), (older_id, older) in itertools.combinations(newest, 2):
        compared = compare_runs([older], [newer])
        pairs[f"{older_id} {newer_id}"] = {
            "headline": comparison.headline(compared),
            "reasons": comparison.reasons(compared),
            "tables": comparison.tables(compared),
        }
    others = (
        f"This page compares the newest {MOST_COMPARED} runs. For others: keras-gpukit compare "
        "LOGDIR#NAME LOGDIR#NAME"
    )
    return {"order": ids, "pairs": pairs, "others": others}


def _cells(run: RunReport) -> dict[str, RunCell]:
    summary, headline = run.summary, headline_of(run.summary)
    severity = headline.severity
    where = " on each worker" if summary.environment.workers > 1 else ""
    busy = mean_busy_percent(summary.gpus)
    busy_fraction = None if busy is None else busy / 100
    lasted_s = summary.throughput.wall_s if summary.throughput else None
    if lasted_s is None and run.began_s is not None and run.ended_s is not None:
        lasted_s = max(run.ended_s - run.began_s, 0.0)
    waited = input_of_run(summary)
    peak = max(summary.memory_peak_bytes.values(), default=None)
    place = float(_SEVERITIES.index(severity))
    return {
        "verdict": RunCell(headline.text, place, (severity, severity)),
        "step time": _cell(summary.step_time_s, units.duration),
        "input": _cell(waited, units.percentage, part=waited),
        "examples/s": _cell(summary.examples_per_s, lambda rate: units.number(rate) + where),
        "GPU busy": _cell(busy_fraction, units.percentage, part=busy_fraction),
        "peak memory": _cell(peak, units.size),
        "steps": _cell(summary.steps, units.number),
        "ran for": _cell(lasted_s, units.duration),
        "state": RunCell("", badge=(run.state, STATES[run.state])),
        "began": RunCell(units.moment(run.began_s), run.began_s),
    }


def _cell(value: float | None, text: Callable[[float], str], part: float | None = None) -> RunCell:
    if value is None:
        return RunCell(_UNKNOWN)
    return RunCell(text(value), float(value), part=part and min(max(part, 0.0), 1.0))
