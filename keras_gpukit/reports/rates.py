"""Rates measured apart: the diagnosis of a training, and the benchmark of a machine."""

from __future__ import annotations

from rich.console import Group, RenderableType

from keras_gpukit.records.report import BenchmarkRow, DeviceBenchmark, MachineBenchmark
from keras_gpukit.records.tuning import Contention, Diagnosis
from keras_gpukit.reports import units
from keras_gpukit.reports.evidence import capitalized, saved
from keras_gpukit.reports.terminal import panel, plain, show_as, table
from keras_gpukit.rules.input.contention import ADVICE

_CONTRADICTION = (
    "The rates contradict each other: training got batches faster than the data alone gives them. "
    "Something else used the cores, or the pipeline became faster meanwhile, as with a cache that "
    "fills. Repeat the measurement."
)


def diagnosis_view(diagnosis: Diagnosis) -> RenderableType:
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


show_as(Diagnosis, diagnosis_view)


_BAR = 10
"""Length of the longest bar of a model, in characters."""
_HEADS = ("model", "setting", "step", "examples/s", "", "range")
DEFAULTS = ("TF32", "float32")
"""Keras' default precisions: TF32 where the GPU has it."""


def benchmark_view(found: MachineBenchmark) -> RenderableType:
    """Returns ceilings, a table with a bar for each row, what is fastest, and what is missing."""
    devices = [line for device in found.devices for line in _device(device)]
    by_model: dict[str, list[BenchmarkRow]] = {}
    for device in found.devices:
        for row in filter(_was_tried, device.rows):
            by_model.setdefault(row.model, []).append(row)
    rows = [line for item in by_model.items() for line in _model_rows(*item)]
    choices = [_choice(name, of_model) for name, of_model in by_model.items()]
    shown = [table(rows, _HEADS, ("step", "examples/s"))] if rows else []
    after = (*filter(None, choices), *_missing(found))
    return Group(*map(plain, devices), *shown, *map(plain, after))


def _device(found: DeviceBenchmark) -> list[str]:
    cores = f", {units.count(found.cores, 'core')}" if found.kind == "CPU" else ""
    lines = [f"{found.kind}: {found.name or 'not measured'}{cores}"]
    if found.failed_because:
        lines.append(f"  Failed: {found.failed_because}.")
    if (ceilings := found.ceilings) is not None:
        best = sorted(ceilings.tflops.items(), key=lambda item: -item[1])
        products = ", ".join(f"{name} {units.number(value)}" for name, value in best)
        copies = f"memory {units.number(ceilings.device_gb_per_s)} GB/s"
        if ceilings.to_device_gb_per_s is not None:
            copies += f", copies to the GPU {units.number(ceilings.to_device_gb_per_s)} GB/s"
        lines.append(f"  At best: products in TFLOP/s: {products}; {copies}.")
    return lines


def _model_rows(model: str, rows: list[BenchmarkRow]) -> list[tuple[str, ...]]:
    """Returns the rows of a model, the fastest first."""
    ordered = sorted(rows, key=_median, reverse=True)
    best = _median(ordered[0])
    lines: list[tuple[str, ...]] = []
    for row in ordered:
        name = "" if lines else model
        if row.rate is None:
            lines.append((name, _setting(row), "", "failed", "", ""))
            continue
        rate, bar = row.rate, "=" * round(_BAR * row.rate.median / best)
        step, span = units.duration(row.batch / rate.median), units.interval(rate.low, rate.high)
        lines.append((name, _setting(row), step, units.number(rate.median), bar, span))
    return lines


def _choice(model: str, rows: list[BenchmarkRow]) -> str | None:
    """Returns which setting is fastest, and how much faster than the default and than the CPU."""
    best = max(rows, key=_median)
    if best.rate is None:
        return None
    plain_rows = [row for row in rows if row.rate is not None and not row.jit]
    bases = []
    for kind in dict.fromkeys((best.device, "CPU")):
        of_kind = {row.precision: row for row in plain_rows if row.device == kind}
        bases.append(next((of_kind[dtype] for dtype in DEFAULTS if dtype in of_kind), None))
    gains = [_how_much(best, base) for base in bases if base is not None and base != best]
    default = ", the default" if best == bases[0] else ""
    return ", ".join((f"{model}: fastest is {_setting(best)}{default}", *gains)) + "."


def _how_much(best: BenchmarkRow, base: BenchmarkRow) -> str:
    assert best.rate is not None
    assert base.rate is not None
    if best.rate.low <= base.rate.high:
        return f"not measurably faster than {_setting(base)}"
    return f"{units.number(best.rate.median / base.rate.median)}× {_setting(base)}"


def _setting(row: BenchmarkRow) -> str:
    return f"{row.device} {row.precision}{' jit' * row.jit}"


def _median(row: BenchmarkRow) -> float:
    return 0.0 if row.rate is None else row.rate.median


def _was_tried(row: BenchmarkRow) -> bool:
    return row.rate is not None or row.failed_because is not None


def _missing(found: MachineBenchmark) -> list[str]:
    """Returns lines on the rows that failed, and on those that found no time, by setting."""
    usable = [device for device in found.devices if device.name or not device.failed_because]
    names = [
        f"{device.kind} ceilings"
        for device in usable
        if device.ceilings is None and not device.failed_because
    ]
    by_setting: dict[str, list[str]] = {}
    for device in usable:
        for row in device.rows:
            if not _was_tried(row):
                by_setting.setdefault(_setting(row), []).append(row.model)
    all_models = {row.model for device in usable for row in device.rows}
    for setting, models in by_setting.items():
        names.append(setting if set(models) == all_models else f"{setting} ({', '.join(models)})")
    lines = [
        f"{row.model}, {_setting(row)}, failed: {row.failed_because}."
        for device in found.devices
        for row in device.rows
        if row.failed_because
    ]
    if names:
        why = "before Ctrl-C" if found.interrupted else f"within --seconds {found.seconds:g}"
        lines.append(f"Not measured {why}: {', '.join(names)}.")
    return lines
