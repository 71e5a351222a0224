"""Batch size search results: a table in a terminal, with a chart in a notebook."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape
from math import log2

from rich.console import Console, Group, RenderableType

from keras_gpukit.records.batch_size import BatchSizeSearch, BatchSizeTrial
from keras_gpukit.records.diagnosis import Rate
from keras_gpukit.records.displayed import show_by
from keras_gpukit.reports import units
from keras_gpukit.reports.console import print_anywhere
from keras_gpukit.reports.html.chart import COLORS
from keras_gpukit.reports.notebook import as_html, card
from keras_gpukit.reports.printable import plain
from keras_gpukit.reports.tables import Table, terminal_table
from keras_gpukit.rules.compute.batch_size import is_near_enough

_BAR = 12
"""Length of the longest bar, in characters."""
_WIDTH, _HEIGHT = 560, 200
_LEFT, _RIGHT, _TOP, _BOTTOM = 70, 20, 26, 40
_MOST_LABELS = 8
Point = tuple[int, float]


def print_search(search: BatchSizeSearch, console: Console | None = None) -> None:
    """Prints the result of the search and each batch size that was tried."""
    print_anywhere(render(search), console)


def render(search: BatchSizeSearch, *, bars: bool = True) -> RenderableType:
    """Returns the largest and the fastest batch size, then a table with a row for each size.

    Bars show the rates as text; a notebook has the chart instead.
    """
    table = terminal_table(_table(search.by_size, bars), ("batch size", "peak memory"))
    lines = [_largest(search), _fastest(search), *_notes(search)]
    return Group(*(plain(line) for line in lines), table)


def _largest(search: BatchSizeSearch) -> str:
    if search.unlimited_because is not None:
        tried = max(each.batch_size for each in search.trials)
        return f"Largest: unknown, {search.unlimited_because}. Tried up to {tried:,}."
    if search.largest is None:
        return "Largest: none, not even one example fits."
    start = f"Largest that fits: {search.largest:,}"
    passed, failed = search.largest_passed, search.smallest_failed
    if failed is None:
        because = search.most_because
        if search.ending == "time ran out" and search.largest < search.most:
            because = search.ending
        # A slightly larger batch passed: the reported size is below it by the margin.
        than = "" if passed is None or passed <= search.largest else f" than {passed:,}"
        return f"{start}. Larger ones{than} were not tried: {because}."
    text = (
        f"{start}, tried, with a margin of {units.percentage(search.margin)} "
        f"({passed or search.largest:,} passed, {failed:,} ran out of memory)."
    )
    if passed is not None and passed <= search.largest:  # a size between failed its last trials
        text = f"{start}, tried with less memory than the device has; {failed:,} ran out of it."
    if search.ending == "time ran out" and passed and not is_near_enough(passed, failed):
        return f"{text} More may fit: time ran out before the sizes between them were tried."
    return text


def _fastest(search: BatchSizeSearch) -> str:
    if search.fastest is None:
        return "Fastest: no rate was measured."
    rate = next(each.rate for each in search.by_size if each.batch_size == search.fastest)
    assert rate is not None
    text = f"Fastest: {search.fastest:,}, with {units.number(rate.median)} examples/s from memory; "
    if search.limited_by_input and search.input_rate is not None:
        return (
            f"{text}the input delivers {units.number(search.input_rate.median)} examples/s, so "
            "larger batches would only wait for it."
        )
    if all(each.rate is None for each in search.by_size if each.batch_size > search.fastest):
        return f"{text}no larger size was measured."
    return f"{text}larger sizes are less than 5 % faster."


def _notes(search: BatchSizeSearch) -> list[str]:
    notes = []
    if search.limit_bytes is not None:
        predicted = search.predicted_largest
        before = "" if predicted is None else f"; a batch of {predicted:,} was predicted to fill it"
        notes.append(f"The memory limit is {units.size(search.limit_bytes)}{before}.")
    if search.input_rate is not None and not search.limited_by_input:
        notes.append(f"The input alone: {units.number(search.input_rate.median)} examples/s.")
    where = "separate processes" if search.isolated else "this process"
    notes.append(
        f"{len(search.trials)} trials in {where}, {units.duration(search.duration_s)}: "
        f"{search.ending}."
    )
    return notes


def _table(trials: tuple[BatchSizeTrial, ...], bars: bool) -> Table:
    best = max((each.rate.median for each in trials if each.rate is not None), default=0.0)
    columns = {
        "batch size": [f"{each.batch_size:,}" for each in trials],
        "examples/s (95 %)": [units.known(each.rate, _rate, "") for each in trials],
    }
    if bars:
        columns[""] = [
            "" if each.rate is None else "=" * round(_BAR * each.rate.median / best)
            for each in trials
        ]
    if any(each.peak_bytes is not None for each in trials):
        columns["peak memory"] = [units.known(each.peak_bytes, units.size, "") for each in trials]
    columns["fits"] = ["yes" if each.fits else f"no: {each.note}" for each in trials]
    return Table(tuple(columns), tuple(zip(*columns.values(), strict=True)))


def _rate(rate: Rate) -> str:
    interval = f"{units.number(rate.low)} to {units.number(rate.high)}"
    return f"{units.number(rate.median)} ({interval})"


def as_notebook_html(search: BatchSizeSearch) -> str:
    """Returns the terminal's output as HTML, with the chart below it."""
    return card(as_html(render(search, bars=False)) + chart(search))


show_by(BatchSizeSearch, as_notebook_html)


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
