"""Batch size search results: a table in a terminal, with a chart in a notebook."""

from __future__ import annotations

from rich.console import Console, Group, RenderableType
from rich.table import Table

from keras_gpukit.records.batch_size import BatchSizeSearch, BatchSizeTrial
from keras_gpukit.records.diagnosis import Rate
from keras_gpukit.records.displayed import show_by
from keras_gpukit.reports import units
from keras_gpukit.reports.batch_size_chart import chart
from keras_gpukit.reports.console import print_anywhere
from keras_gpukit.reports.notebook import as_html, card
from keras_gpukit.reports.printable import plain
from keras_gpukit.rules.compute.batch_size import is_near_enough

_BAR = 12
"""Length of the longest bar, in characters."""


def print_search(search: BatchSizeSearch, console: Console | None = None) -> None:
    """Prints the result of the search and each batch size that was tried."""
    print_anywhere(render(search), console)


def render(search: BatchSizeSearch, *, bars: bool = True) -> RenderableType:
    """Returns the largest and the fastest batch size, then a table with a row for each size.

    Args:
        search: Result of the search.
        bars: Whether the table shows rates as text bars too; a notebook has the chart instead.
    """
    lines = [_largest(search), _fastest(search), *_notes(search)]
    return Group(*(plain(line) for line in lines), _table(search.by_size, bars))


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
    table = Table(box=None, pad_edge=False)
    table.add_column("batch size", justify="right", no_wrap=True)
    table.add_column("examples/s (95 %)", no_wrap=True)
    if bars:
        table.add_column("", no_wrap=True)
    peaks = any(each.peak_bytes is not None for each in trials)
    if peaks:
        table.add_column("peak memory", justify="right", no_wrap=True)
    table.add_column("fits")
    best = max((each.rate.median for each in trials if each.rate is not None), default=0.0)
    for trial in trials:
        rate, peak = trial.rate, trial.peak_bytes
        bar = "" if rate is None else "=" * round(_BAR * rate.median / best)
        table.add_row(
            f"{trial.batch_size:,}",
            "" if rate is None else _rate(rate),
            *([bar] if bars else []),
            *(["" if peak is None else units.size(peak)] if peaks else []),
            "yes" if trial.fits else plain(f"no: {trial.note}"),
        )
    return table


def _rate(rate: Rate) -> str:
    interval = f"{units.number(rate.low)} to {units.number(rate.high)}"
    return f"{units.number(rate.median)} ({interval})"


def as_notebook_html(search: BatchSizeSearch) -> str:
    """Returns the terminal's output as HTML, with the chart below it."""
    return card(as_html(render(search, bars=False)) + chart(search))


show_by(BatchSizeSearch, as_notebook_html)
