"""Results of `tune`, as a table in a terminal with the lines to change."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Group, RenderableType

from keras_gpukit.records.finding import Change
from keras_gpukit.records.tuning import Promise, SpeedupSearch, TriedChange
from keras_gpukit.reports import units
from keras_gpukit.reports.terminal import plain, show_as, table


def render(search: SpeedupSearch) -> RenderableType:
    """Returns the best change, a table with a row for each change, and the lines to change."""
    best = search.best
    lines = [_headline(search), *_kept_promises(search)]
    lines.append(
        f"Ended after {units.duration(search.duration_s)}: {search.ending}. A gain counts from "
        f"5 % on and outside the noise; the loss may differ by {units.percentage(search.tolerance)}"
        ". Without callbacks and validation."
    )
    snippet = [] if best is None or not best.lines else ["", "Change:", *_snippet(best.lines)]
    after = [f"- {each.change}: {each.note}." for each in search.trials if each.gain is None]
    if (found := search.by_hand) is not None:
        after.append(f"To change by hand: {found.title} ({found.code}). Next: {found.advice[0]}.")
    after += snippet
    return Group(*map(plain, lines), *_table(search), *map(plain, after))


def _headline(search: SpeedupSearch) -> str:
    rate = f"{units.number(search.rate.median)} {search.rate.unit}"
    if search.best is None:
        return f"{search.subject}: {rate} as it is; no change was found that makes it faster."
    best = search.best
    interval = units.interval(best.low or 0.0, best.high or 0.0)
    after = "" if best.rate is None else f", {_rate(search, best)} {best.rate.unit}"
    return (
        f"{search.subject}: {rate} as it is. Fastest: {best.description}: {best.gain:.2f}× "
        f"(95 %: {interval}){after}."
    )


def _rate(search: SpeedupSearch, tried: TriedChange) -> str:
    """Returns the rate with a change that goes with its gain.

    The gain is from rounds in turn, and its own rounds may have met a faster or slower moment.
    """
    return "" if tried.gain is None else units.number(search.rate.median * tried.gain)


def _kept_promises(search: SpeedupSearch) -> Iterator[str]:
    """Yields what findings promised of changes that were measured, and what was measured."""
    for each in search.trials:
        if each.promise is not None and each.gain is not None:
            interval = units.interval(each.low or 0.0, each.high or 0.0)
            yield (
                f"{each.promise.code}, by {each.change}: promised {_promise(each.promise)}, "
                f"measured {each.gain:.2f}× (95 %: {interval})."
            )


def _promise(promise: Promise) -> str:
    if promise.high is None:
        return f"{promise.low:.2f}× or more"
    if promise.low < 1.005:
        return f"up to {promise.high:.2f}×"
    return f"{promise.low:.2f}× to {promise.high:.2f}×"


def _table(search: SpeedupSearch) -> list[RenderableType]:
    measured = [each for each in search.trials if each.gain is not None]
    if not measured:
        return []
    heads = ("change", "gain", "95 %", search.rate.unit, "first step", "")
    unchanged = ("as it is", "1.00", "", units.number(search.rate.median))
    rows: list[tuple[str, ...]] = [(*unchanged, units.duration(search.first_step_s), "")]
    measured.sort(key=lambda each: (not each.kept, -(each.gain or 0.0)))
    rows += [_row(search, each) for each in measured]
    return [table(rows, heads, heads[1:5])]


def _row(search: SpeedupSearch, tried: TriedChange) -> tuple[str, ...]:
    return (
        tried.description,
        units.known(tried.gain, "{:.2f}".format, ""),
        units.interval(tried.low or 0.0, tried.high or 0.0),
        _rate(search, tried),
        units.known(tried.first_step_s, units.duration, ""),
        ": ".join(filter(None, ("kept" if tried.kept else "", tried.note))),
    )


def _snippet(lines: tuple[Change, ...]) -> Iterator[str]:
    for each in lines:
        if each.location:
            yield f"  {each.location}"
        marked = (("-", each.before), ("+", each.after))
        for mark, text in marked:
            yield from (f"  {mark} {line}" for line in text.splitlines())


show_as(SpeedupSearch, render)
