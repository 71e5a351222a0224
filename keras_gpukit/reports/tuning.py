"""The results of tuning an input pipeline, as a table in a terminal."""

from __future__ import annotations

from rich.console import Group, RenderableType

from keras_gpukit.records.diagnosis import Rate
from keras_gpukit.records.displayed import show_by
from keras_gpukit.records.tuning import CACHE_NOT_ALLOWED, Ending, Trial, TuningRecord
from keras_gpukit.reports import units
from keras_gpukit.reports.notebook import as_html, card
from keras_gpukit.reports.printable import as_text, plain
from keras_gpukit.reports.tables import Table, terminal_table
from keras_gpukit.rules import gains

_ENDINGS: dict[Ending, str] = {
    "the model is no faster": (
        "the input is faster than the model trains, so an even faster one would not help"
    ),
}


def render(record: TuningRecord, code: str = "") -> RenderableType:
    """Returns the rates, a table of the trials, and the advice on what to do by hand."""
    # Plain text throughout: function names must not be parsed as markup.
    parts: list[RenderableType] = [plain(line) for line in _headline(record)]
    if record.trials:
        parts.append(terminal_table(_table(record.trials), ("gain", "95 %")))
    parts += [plain(f"- {line}") for line in record.advice]
    if code:
        parts += [plain(""), plain(code)]
    return Group(*parts)


def _headline(record: TuningRecord) -> list[str]:
    cache = next((each for each in record.trials if each.note == CACHE_NOT_ALLOWED), None)
    factor = "" if cache is None else f"{cache.gain:.2f}×"
    if any(trial.kept for trial in record.trials):
        interval = f"{record.low:.2f} to {record.high:.2f}"
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
    ending = _ENDINGS.get(record.ending, record.ending)
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


def _table(trials: tuple[Trial, ...]) -> Table:
    rows = tuple(
        (
            trial.description,
            "" if trial.gain is None else f"{trial.gain:.2f}",
            ""
            if trial.low is None or trial.high is None
            else f"{trial.low:.2f} to {trial.high:.2f}",
            "yes" if trial.kept else "no",
            trial.note,
        )
        for trial in trials
    )
    return Table(("change", "gain", "95 %", "kept", "note"), rows)


show_by(
    TuningRecord,
    lambda record: card(as_html(render(record))),
    lambda record: as_text(render(record)),
)
