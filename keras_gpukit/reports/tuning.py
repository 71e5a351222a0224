"""The results of tuning an input pipeline, as a table in a terminal."""

from __future__ import annotations

from rich.console import Group, RenderableType

from keras_gpukit.records.tuning import CACHE_NOT_ALLOWED, Rate, TuningRecord
from keras_gpukit.reports import units
from keras_gpukit.reports.terminal import plain, show_as, table
from keras_gpukit.rules import gains

_ENOUGH = "the input is faster than the model trains, so an even faster one would not help"


def render(record: TuningRecord, code: str = "") -> RenderableType:
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
    return Group(*map(plain, _headline(record)), *trials, *map(plain, after))


def _headline(record: TuningRecord) -> list[str]:
    cache = next((each for each in record.trials if each.note == CACHE_NOT_ALLOWED), None)
    factor = "" if cache is None else f"{cache.gain:.2f}×"
    if any(trial.kept for trial in record.trials):
        interval = _interval(record.low, record.high)
        lines = [
            f"Input: {_rate(record.rate)} before, {_rate(record.tuned_rate)} tuned, "
            f"{record.gain:.2f}× (95 %: {interval})."
        ]
        if cache is not None:
            lines.append(f"A cache alone made it {factor} faster: pass cache=True.")
    elif cache is not None:
        lines = [
            f"Input: {_rate(record.rate)}; a cache would make it {factor} faster: pass cache=True. "
            "Nothing was changed."
        ]
    else:
        lines = [f"Input: {_rate(record.rate)}; no change made it faster."]
    if record.compute_rate is not None:
        lines.append(f"The model alone: {_rate(record.compute_rate)}.{_training(record)}")
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


def _rate(rate: Rate) -> str:
    return f"{units.number(rate.median)} {rate.unit}"


def _interval(low: float | None, high: float | None) -> str:
    return "" if low is None or high is None else f"{low:.2f} to {high:.2f}"


show_as(TuningRecord, render)
