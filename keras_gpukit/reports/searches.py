"""Batch sizes, changes of a script and changes of an input pipeline that were tried."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Group, RenderableType

from keras_gpukit.records.finding import Change
from keras_gpukit.records.tuning import (
    CACHE_NOT_ALLOWED,
    BatchSizeSearch,
    BatchSizeTrial,
    Promise,
    Rate,
    SpeedupSearch,
    TriedChange,
    TuningRecord,
)
from keras_gpukit.reports import units
from keras_gpukit.reports.terminal import plain, show_as, table
from keras_gpukit.rules import gains
from keras_gpukit.rules.compute.batch_size import is_near_enough

_BAR = 12
"""Length of the longest bar, in characters."""


def batch_size_view(search: BatchSizeSearch) -> RenderableType:
    """Returns the largest and the fastest batch size, then a table with a row for each size."""
    lines = [_largest(search), _fastest(search), *_notes(search)]
    return Group(*map(plain, lines), _sizes_table(search.by_size))


def _largest(search: BatchSizeSearch) -> str:
    if search.unlimited_because is not None:
        tried = max(trial.batch_size for trial in search.trials)
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
    rate = next(trial.rate for trial in search.by_size if trial.batch_size == search.fastest)
    assert rate is not None
    text = f"Fastest: {search.fastest:,}, with {units.number(rate.median)} examples/s from memory; "
    if search.limited_by_input and search.input_rate is not None:
        return (
            f"{text}the input delivers {units.number(search.input_rate.median)} examples/s, so "
            "larger batches would only wait for it."
        )
    if all(trial.rate is None for trial in search.by_size if trial.batch_size > search.fastest):
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


def _sizes_table(trials: tuple[BatchSizeTrial, ...]) -> RenderableType:
    best = max((trial.rate.median for trial in trials if trial.rate is not None), default=0.0)
    columns = {
        "batch size": [f"{trial.batch_size:,}" for trial in trials],
        "examples/s (95 %)": [
            f"{units.number(rate.median)} ({units.interval(rate.low, rate.high)})" if rate else ""
            for rate in (trial.rate for trial in trials)
        ],
        "": [
            "" if trial.rate is None else "=" * round(_BAR * trial.rate.median / best)
            for trial in trials
        ],
        "peak memory": [units.known(trial.peak_bytes, units.size, "") for trial in trials],
        "fits": ["yes" if trial.fits else f"no: {trial.note}" for trial in trials],
    }
    if not any(columns["peak memory"]):
        del columns["peak memory"]
    rows = zip(*columns.values(), strict=True)
    return table(rows, tuple(columns), ("batch size", "peak memory"))


show_as(BatchSizeSearch, batch_size_view)


def speedup_view(search: SpeedupSearch) -> RenderableType:
    """Returns the best change, a table with a row for each change, and the lines to change."""
    best = search.best
    lines = [_fastest_change(search), *_kept_promises(search)]
    lines.append(
        f"Ended after {units.duration(search.duration_s)}: {search.ending}. A gain counts from "
        f"5 % on and outside the noise; the loss may differ by {units.percentage(search.tolerance)}"
        ". Without callbacks and validation."
    )
    snippet = [] if best is None or not best.lines else ["", "Change:", *_snippet(best.lines)]
    after = [f"- {trial.change}: {trial.note}." for trial in search.trials if trial.gain is None]
    if (found := search.by_hand) is not None:
        after.append(f"To change by hand: {found.title} ({found.code}). Next: {found.advice[0]}.")
    after += snippet
    return Group(*map(plain, lines), *_changes_table(search), *map(plain, after))


def _fastest_change(search: SpeedupSearch) -> str:
    rate = f"{units.number(search.rate.median)} {search.rate.unit}"
    if search.best is None:
        return f"{search.subject}: {rate} as it is; no change was found that makes it faster."
    best = search.best
    interval = units.interval(best.low or 0.0, best.high or 0.0)
    after = "" if best.rate is None else f", {_gained(search, best)} {best.rate.unit}"
    return (
        f"{search.subject}: {rate} as it is. Fastest: {best.description}: {best.gain:.2f}× "
        f"(95 %: {interval}){after}."
    )


def _gained(search: SpeedupSearch, tried: TriedChange) -> str:
    """Returns the rate with a change that goes with its gain.

    The gain is from rounds in turn, and its own rounds may have met a faster or slower moment.
    """
    return "" if tried.gain is None else units.number(search.rate.median * tried.gain)


def _kept_promises(search: SpeedupSearch) -> Iterator[str]:
    """Yields what findings promised of changes that were measured, and what was measured."""
    for trial in search.trials:
        if trial.promise is not None and trial.gain is not None:
            interval = units.interval(trial.low or 0.0, trial.high or 0.0)
            yield (
                f"{trial.promise.code}, by {trial.change}: promised {_promise(trial.promise)}, "
                f"measured {trial.gain:.2f}× (95 %: {interval})."
            )


def _promise(promise: Promise) -> str:
    if promise.high is None:
        return f"{promise.low:.2f}× or more"
    if promise.low < 1.005:
        return f"up to {promise.high:.2f}×"
    return f"{promise.low:.2f}× to {promise.high:.2f}×"


def _changes_table(search: SpeedupSearch) -> list[RenderableType]:
    measured = [trial for trial in search.trials if trial.gain is not None]
    if not measured:
        return []
    heads = ("change", "gain", "95 %", search.rate.unit, "first step", "")
    unchanged = ("as it is", "1.00", "", units.number(search.rate.median))
    rows: list[tuple[str, ...]] = [(*unchanged, units.duration(search.first_step_s), "")]
    measured.sort(key=lambda trial: (not trial.kept, -(trial.gain or 0.0)))
    rows += [_change_row(search, trial) for trial in measured]
    return [table(rows, heads, heads[1:5])]


def _change_row(search: SpeedupSearch, tried: TriedChange) -> tuple[str, ...]:
    return (
        tried.description,
        units.known(tried.gain, "{:.2f}".format, ""),
        units.interval(tried.low or 0.0, tried.high or 0.0),
        _gained(search, tried),
        units.known(tried.first_step_s, units.duration, ""),
        ": ".join(filter(None, ("kept" if tried.kept else "", tried.note))),
    )


def _snippet(lines: tuple[Change, ...]) -> Iterator[str]:
    for change in lines:
        if change.location:
            yield f"  {change.location}"
        marked = (("-", change.before), ("+", change.after))
        for mark, text in marked:
            yield from (f"  {mark} {line}" for line in text.splitlines())


show_as(SpeedupSearch, speedup_view)


_ENOUGH = "the input is faster than the model trains, so an even faster one would not help"


def tuning_view(record: TuningRecord, code: str = "") -> RenderableType:
    """Returns the rates, a table of the trials, and the advice on what to do by hand."""
    rows = [
        (
            trial.description,
            units.known(trial.gain, "{:.2f}".format, ""),
            _interval(trial.low, trial.high),
            "yes" if trial.kept else "no",
            trial.note,
        )
        for trial in record.trials
    ]
    heads = ("change", "gain", "95 %", "kept", "note")
    trials = [table(rows, heads, ("gain", "95 %"))] if rows else []
    after = [*(f"- {line}" for line in record.advice), *(["", code] if code else [])]
    return Group(*map(plain, _input_lines(record)), *trials, *map(plain, after))


def _input_lines(record: TuningRecord) -> list[str]:
    cache = next((trial for trial in record.trials if trial.note == CACHE_NOT_ALLOWED), None)
    factor = "" if cache is None else f"{cache.gain:.2f}×"
    if any(trial.kept for trial in record.trials):
        interval = _interval(record.low, record.high)
        lines = [
            f"Input: {_with_unit(record.rate)} before, {_with_unit(record.tuned_rate)} tuned, "
            f"{record.gain:.2f}× (95 %: {interval})."
        ]
        if cache is not None:
            lines.append(f"A cache alone made it {factor} faster: pass cache=True.")
    elif cache is not None:
        lines = [
            f"Input: {_with_unit(record.rate)}; a cache would make it {factor} faster: pass "
            "cache=True. Nothing was changed."
        ]
    else:
        lines = [f"Input: {_with_unit(record.rate)}; no change made it faster."]
    if record.compute_rate is not None:
        lines.append(f"The model alone: {_with_unit(record.compute_rate)}.{_training(record)}")
    ending = _ENOUGH if record.ending == "the model is no faster" else record.ending
    lines.append(f"Ended after {units.duration(record.duration_s)}: {ending}.")
    return lines


def _training(record: TuningRecord) -> str:
    """Returns a sentence on the gain for training; "" if nothing was changed or is unknown."""
    kept = [trial.change for trial in record.trials if trial.kept]
    if record.compute_rate is None or not kept:
        return ""
    rates = record.rate, record.tuned_rate, record.compute_rate
    gain = gains.training_gain(*rates, overlap_is_new="prefetch" in kept)
    if not gains.counts(gain, gain):
        return (
            " Steps gain little: the model alone was hardly faster than the input before. Epochs "
            "may start faster."
        )
    return (
        f" Steps: about {gain:.2f}× faster by these rates, and more if the input took cores from "
        "the model. Epochs start faster too, which is not in it."
    )


def _with_unit(rate: Rate) -> str:
    return f"{units.number(rate.median)} {rate.unit}"


def _interval(low: float | None, high: float | None) -> str:
    return "" if low is None or high is None else f"{low:.2f} to {high:.2f}"


show_as(TuningRecord, tuning_view)
