"""Bar charts whose traces differ by colour and pattern."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from keras_gpukit.reports.html.chart import PALETTE, PATTERNS, axis, draw, names_axis


def bar(name: str, place: int, color: str | None = None, **data: Any) -> Any:
    """Returns a bar trace that differs from its neighbours by colour and by pattern.

    Args:
        name: Name in the legend.
        place: Index of the trace in the chart, from 0.
        color: Colour of the bars; by default the palette's colour for `place`.
        **data: Further arguments of Plotly's `Bar`.
    """
    from plotly import graph_objects as go

    pattern = {"shape": PATTERNS[place % len(PATTERNS)], "solidity": 0.2}
    marker = {"color": color or PALETTE[place % len(PALETTE)], "pattern": pattern}
    # Plotly measures texts in this weight; the style sheet's would make them wider than it knows.
    return go.Bar(name=name, marker=marker, textfont={"weight": 600}, **data)


def row_bars(
    name: str,
    place: int,
    values: Sequence[float | None],
    hover: str,
    color: str | None = None,
) -> Any:
    """Returns a trace of horizontal bars in rows at 0, 1, 2 and so on.

    Args:
        name: Name in the legend.
        place: Index of the trace in the chart, from 0.
        values: Length of the bar in each row, the first row first; None for no bar.
        hover: Hover text of a bar, as a Plotly template.
        color: Colour of the bars; by default the palette's colour for `place`.
    """
    rows = list(range(len(values)))
    return bar(name, place, color, x=values, y=rows, orientation="h", hovertemplate=hover)


def draw_bars(
    traces: Sequence[Any],
    names: Sequence[str],
    heading: str,
    *,
    height: int,
    hovermode: str = "closest",
    barmode: str = "stack",
) -> str:
    """Returns the JSON of a figure of horizontal bars, with a row for each name.

    Args:
        traces: Traces with their bars in rows at 0, 1, 2 and so on.
        names: Names of the rows, top row first.
        heading: Title of the value axis, with its unit.
        height: Height of the figure in pixels.
        hovermode: Plotly's `hovermode`.
        barmode: Plotly's `barmode`: the bars of a row are stacked, or in a group.
    """
    return draw(
        traces,
        height=height,
        barmode=barmode,
        hovermode=hovermode,
        xaxis=axis(heading, rangemode="tozero"),
        yaxis=names_axis(names),
    )
