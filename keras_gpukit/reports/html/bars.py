"""Bars side by side, distinguished by colour and pattern."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from keras_gpukit.reports.html.chart import PALETTE, PATTERNS, axis, draw, names_axis


def bar(name: str, place: int, color: str | None = None, **data: Any) -> Any:
    """A bar trace that differs from its neighbours by colour and by pattern.

    Args:
        name: In the legend.
        place: Among the chart's traces.
        color: Of the palette, by place, unless given.
        **data: Plotly's own.
    """
    from plotly import graph_objects as go

    pattern = {"shape": PATTERNS[place % len(PATTERNS)], "solidity": 0.2}
    marker = {"color": color or PALETTE[place % len(PALETTE)], "pattern": pattern}
    return go.Bar(name=name, marker=marker, **data)


def row_bars(
    name: str,
    place: int,
    values: Sequence[float | None],
    hover: str,
    color: str | None = None,
) -> Any:
    """The bars of one trace in rows at 0, 1, 2 and so on.

    Args:
        name: In the legend.
        place: Among the chart's traces.
        values: Of the rows, from the first on.
        hover: What the cursor says of a bar, as Plotly's template.
        color: Of the palette, by place, unless given.
    """
    rows = list(range(len(values)))
    return bar(name, place, color, x=values, y=rows, orientation="h", hovertemplate=hover)


def draw_bars(
    traces: Sequence[Any], names: Sequence[str], heading: str, *, height: int, hovermode: str
) -> str:
    """Draws bars that are stacked side by side, a row for each name.

    Args:
        traces: Each with its bars at 0, 1, 2 and so on.
        names: Of the rows, the first on top.
        heading: Of the other axis, with its unit.
        height: In pixels.
        hovermode: Plotly's.
    """
    return draw(
        traces,
        height=height,
        barmode="stack",
        hovermode=hovermode,
        xaxis=axis(heading, rangemode="tozero"),
        yaxis=names_axis(names),
    )
