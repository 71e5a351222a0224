"""The step times of several runs, and what their names share."""

from __future__ import annotations

from collections.abc import Sequence

from keras_gpukit.records.report import RunReport
from keras_gpukit.reports import units
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
from keras_gpukit.reports.tables import Table

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
