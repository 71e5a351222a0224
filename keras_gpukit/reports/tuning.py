"""What tuning an input pipeline found, as a table in a terminal."""

from __future__ import annotations

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from keras_gpukit.records.diagnosis import Rate
from keras_gpukit.records.tuning import Trial, TuningRecord
from keras_gpukit.reports import units


def print_tuning(record: TuningRecord, code: str = "", console: Console | None = None) -> None:
    """Prints what was tried and what it brought.

    Args:
        record: What was found.
        code: The pipeline as it should be written.
        console: Where to print; standard output by default.
    """
    (console or Console()).print(render(record, code))


def render(record: TuningRecord, code: str = "") -> RenderableType:
    """The rates, the trials, and what is left to do by hand.

    Args:
        record: What was found.
        code: The pipeline as it should be written.
    """
    # Text throughout: names of functions must not be taken for markup.
    parts: list[RenderableType] = [Text(line) for line in _headline(record)]
    if record.trials:
        parts.append(_table(record.trials))
    parts += [Text(f"- {line}") for line in record.advice]
    if code:
        parts += [Text(""), Text(code)]
    return Group(*parts)


def _headline(record: TuningRecord) -> list[str]:
    kept = any(trial.kept for trial in record.trials)
    if kept:
        interval = f"{record.low:.2f} to {record.high:.2f}"
        lines = [
            f"Input: {_rate(record.rate)} before, {_rate(record.tuned_rate)} tuned, "
            f"{record.gain:.2f} times as fast (95 %: {interval})."
        ]
    else:
        lines = [f"Input: {_rate(record.rate)}; nothing tried made it faster."]
    if record.compute_rate is not None:
        lines.append(f"The model alone: {_rate(record.compute_rate)}.")
    lines.append(f"Ended after {units.duration(record.duration_s)}: {record.ending}.")
    return lines


def _rate(rate: Rate) -> str:
    return f"{units.number(rate.median)} {rate.unit}"


def _table(trials: tuple[Trial, ...]) -> Table:
    table = Table(box=None, pad_edge=False)
    for heading in ("change", "gain", "95 %", "kept", "note"):
        table.add_column(heading, no_wrap=heading in {"gain", "95 %", "kept"})
    for trial in trials:
        table.add_row(
            Text(trial.description),
            "" if trial.gain is None else f"{trial.gain:.2f}",
            _interval(trial),
            "yes" if trial.kept else "no",
            Text(trial.note),
        )
    return table


def _interval(trial: Trial) -> str:
    if trial.low is None or trial.high is None:
        return ""
    return f"{trial.low:.2f} to {trial.high:.2f}"
