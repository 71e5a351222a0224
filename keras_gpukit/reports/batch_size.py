"""Batch size search results, as a table in a terminal."""

from __future__ import annotations

from rich.console import Group, RenderableType

from keras_gpukit.records.tuning import BatchSizeSearch, BatchSizeTrial, Rate
from keras_gpukit.reports import units
from keras_gpukit.reports.terminal import plain, show_as, table
from keras_gpukit.rules.compute.batch_size import is_near_enough

_BAR = 12
"""Length of the longest bar, in characters."""


def render(search: BatchSizeSearch) -> RenderableType:
    """Returns the largest and the fastest batch size, then a table with a row for each size."""
    lines = [_largest(search), _fastest(search), *_notes(search)]
    return Group(*map(plain, lines), _table(search.by_size))


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
        before = "" if predicted is None else f"; a batch of {predicted:,} was predicted to fit"
        notes.append(f"The memory limit is {units.size(search.limit_bytes)}{before}.")
    if search.input_rate is not None and not search.limited_by_input:
        notes.append(f"The input alone: {units.number(search.input_rate.median)} examples/s.")
    where = "separate processes" if search.isolated else "this process"
    notes.append(
        f"{len(search.trials)} trials in {where}, {units.duration(search.duration_s)}: "
        f"{search.ending}."
    )
    return notes


def _table(trials: tuple[BatchSizeTrial, ...]) -> RenderableType:
    best = max((each.rate.median for each in trials if each.rate is not None), default=0.0)
    columns = {
        "batch size": [f"{each.batch_size:,}" for each in trials],
        "examples/s (95 %)": [units.known(each.rate, _rate, "") for each in trials],
        "": [
            "" if each.rate is None else "=" * round(_BAR * each.rate.median / best)
            for each in trials
        ],
        "peak memory": [units.known(each.peak_bytes, units.size, "") for each in trials],
        "fits": ["yes" if each.fits else f"no: {each.note}" for each in trials],
    }
    if not any(columns["peak memory"]):
        del columns["peak memory"]
    rows = zip(*columns.values(), strict=True)
    return table(rows, tuple(columns), ("batch size", "peak memory"))


def _rate(rate: Rate) -> str:
    return f"{units.number(rate.median)} ({units.interval(rate.low, rate.high)})"


show_as(BatchSizeSearch, render)
