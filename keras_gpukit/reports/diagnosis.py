"""A diagnosis as a table and in sentences."""

from __future__ import annotations

from rich.console import RenderableType

from keras_gpukit.records.tuning import Contention, Diagnosis
from keras_gpukit.reports import units
from keras_gpukit.reports.evidence import capitalized
from keras_gpukit.reports.phrases import saved
from keras_gpukit.reports.terminal import panel, plain, show_as, table
from keras_gpukit.rules.input.contention import ADVICE

_CONTRADICTION = (
    "The rates contradict each other: training got batches faster than the data alone gives them. "
    "Something else used the cores, or the pipeline became faster meanwhile, as with a cache that "
    "fills. Repeat the measurement."
)


def render(diagnosis: Diagnosis) -> RenderableType:
    """Returns a panel with the three rates and the conclusions from them."""
    heads = ("", "batches/s", "interval", "examples/s")
    examples = diagnosis.examples_per_batch
    rates = {
        "data alone": diagnosis.data_only,
        "compute alone": diagnosis.compute_only,
        "together": diagnosis.actual,
    }
    rows = [
        (
            name,
            units.number(rate.median),
            units.interval(rate.low, rate.high),
            "" if examples is None else units.number(rate.median * examples),
        )
        for name, rate in rates.items()
    ]
    return panel([table(rows, heads, heads[1:]), "", *map(plain, conclusions(diagnosis))])


def conclusions(diagnosis: Diagnosis) -> tuple[str, ...]:
    """Returns the conclusions from the rates, one or two sentences per line."""
    if diagnosis.is_contradictory:
        return (_CONTRADICTION,)
    lines = [_ceiling(diagnosis)]
    if diagnosis.saving is not None:
        lines.append(f"{capitalized(saved(diagnosis.saving))}.")
    if diagnosis.contention is not None:
        lines.append(_contention(diagnosis.contention))
    return tuple(lines)


def _ceiling(diagnosis: Diagnosis) -> str:
    span = units.interval(diagnosis.ceiling_interval.low, diagnosis.ceiling_interval.high)
    if diagnosis.ceiling_gain is None:
        return f"Without input, steps are not measurably faster: {span}× the rate."
    factor = units.number(diagnosis.ceiling_gain)
    return (
        f"Without input, steps are {factor}× faster ({span}): the rate of compute alone "
        "divided by the rate together. Epoch starts, validation and callbacks are not included."
    )


def _contention(contention: Contention) -> str:
    share = units.percentage(contention.shortfall.median)
    evidence = []
    if contention.cores_busy_fraction is not None:
        evidence.append(f"cores {units.percentage(contention.cores_busy_fraction)} busy")
    if contention.gil_wait_s is not None:
        evidence.append(f"Python {units.duration(contention.gil_wait_s)} delayed")
    cause = contention.cause
    meaning = ADVICE[cause] if cause else "Cores were idle; the cause is unknown"
    figures = f" ({', '.join(evidence)})" if evidence else ""
    return f"Together they run {share} slower than the slower of the two alone. {meaning}{figures}."


show_as(Diagnosis, render)
