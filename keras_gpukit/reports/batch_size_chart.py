"""A chart of throughput and peak memory by batch size, as an SVG without scripts.

The batch size axis is logarithmic; the axes of rates and memory start at zero.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape
from math import log2

from keras_gpukit.records.batch_size import BatchSizeSearch
from keras_gpukit.reports import units
from keras_gpukit.reports.html.chart import COLORS

_WIDTH, _HEIGHT = 560, 200
_LEFT, _RIGHT, _TOP, _BOTTOM = 70, 20, 26, 40
_MOST_LABELS = 8
Point = tuple[int, float]


def chart(search: BatchSizeSearch) -> str:
    """Returns two panels, one above the other; a panel with fewer than two points is left out."""
    trials = search.by_size
    rates = [(each.batch_size, each.rate.median) for each in trials if each.rate is not None]
    peaks = [(each.batch_size, float(each.peak_bytes)) for each in trials if each.peak_bytes]
    marks = {"fastest": search.fastest, "largest": search.largest}
    marked = {size: name for name, size in marks.items() if size is not None}
    level = None if search.input_rate is None else ("input alone", search.input_rate.median)
    limit = None if search.limit_bytes is None else ("limit", float(search.limit_bytes))
    return _panel("examples/s", rates, COLORS["compute"], units.number, marked, level) + _panel(
        "peak memory", peaks, COLORS["input"], units.size, marked, limit
    )


def _panel(
    title: str,
    points: Sequence[Point],
    color: str,
    text: Callable[[float], str],
    marked: dict[int, str],
    level: tuple[str, float] | None,
) -> str:
    if len(points) < 2:
        return ""
    highest = max(value for _, value in points)
    # A level far above the points would flatten them onto the axis.
    shown = level if level is not None and level[1] <= 2 * highest else None
    top = 1.08 * max(highest, shown[1] if shown else 0.0)
    first, last = log2(points[0][0]), log2(points[-1][0])

    def x(size: int) -> float:
        return _LEFT + (_WIDTH - _LEFT - _RIGHT) * (log2(size) - first) / (last - first)

    def y(value: float) -> float:
        return _HEIGHT - _BOTTOM - (_HEIGHT - _BOTTOM - _TOP) * value / top

    parts = [_text(4, 14, title, "start", bold=True)]
    for value in (0.0, highest):
        parts.append(_line(_LEFT, y(value), _WIDTH - _RIGHT, y(value), "currentColor", 0.2))
        parts.append(_text(_LEFT - 6, y(value) + 4, text(value), "end"))
    if shown is not None:
        parts.append(_line(_LEFT, y(shown[1]), _WIDTH - _RIGHT, y(shown[1]), "currentColor", 0.7))
        parts.append(_text(_LEFT + 4, y(shown[1]) - 4, f"{shown[0]} {text(shown[1])}", "start"))
    track = " ".join(f"{x(size):.1f},{y(value):.1f}" for size, value in points)
    parts.append(f'<polyline points="{track}" fill="none" stroke="{color}" stroke-width="2"/>')
    for size, value in points:
        named = f" ({marked[size]})" if size in marked else ""
        parts.append(
            f'<circle cx="{x(size):.1f}" cy="{y(value):.1f}" r="{6 if named else 3}" '
            f'fill="{color}"><title>{size:,}{named}: {escape(text(value))}</title></circle>'
        )
    for size in _labelled([size for size, _ in points], marked):
        parts.append(_text(x(size), _HEIGHT - _BOTTOM + 16, f"{size:,}", "middle"))
        if size in marked:
            parts.append(_text(x(size), _HEIGHT - _BOTTOM + 31, marked[size], "middle"))
    return (
        f'<svg role="img" aria-label="{escape(title)} against batch size" viewBox="0 0 {_WIDTH} '
        f'{_HEIGHT}" style="max-width:{_WIDTH}px;width:100%;display:block">{"".join(parts)}</svg>'
    )


def _labelled(sizes: Sequence[int], marked: dict[int, str]) -> list[int]:
    """Returns the sizes whose labels fit without overlap; marked sizes take precedence."""
    room = (log2(sizes[-1]) - log2(sizes[0])) / _MOST_LABELS
    chosen: list[int] = []
    for size in sorted(sizes, key=lambda each: each not in marked):
        if all(abs(log2(size) - log2(other)) >= room for other in chosen):
            chosen.append(size)
    return chosen


def _line(x1: float, y1: float, x2: float, y2: float, color: str, opacity: float) -> str:
    return (
        f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{color}" '
        f'stroke-opacity="{opacity}" stroke-dasharray="4 3"/>'
    )


def _text(x: float, y: float, text: str, anchor: str, *, bold: bool = False) -> str:
    weight = ' font-weight="600"' if bold else ""
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="12" '
        f'fill="currentColor"{weight}>{escape(text)}</text>'
    )
