"""What `keras-gpukit bench` measured, as tables with bars in a terminal."""

from __future__ import annotations

from rich.console import Group, RenderableType

from keras_gpukit.records.benchmark import BenchmarkRow, DeviceBenchmark, MachineBenchmark
from keras_gpukit.reports import units
from keras_gpukit.reports.terminal import plain, table

_BAR = 24
"""Length of the longest bar of a model, in characters."""
_HEADS = ("model", "device", "precision", "jit", "step", "examples/s", "", "range")
DEFAULTS = ("TF32", "float32")
"""What Keras computes in unless it is told otherwise: TF32 where the GPU has it."""


def render(found: MachineBenchmark) -> RenderableType:
    """Returns ceilings, a table with a bar for each row, what is fastest, and what is missing."""
    devices = [line for device in found.devices for line in _device(device)]
    by_model: dict[str, list[BenchmarkRow]] = {}
    for device in found.devices:
        for row in device.rows:
            by_model.setdefault(row.model, []).append(row)
    rows = [line for of_model in by_model.values() for line in _rows(of_model)]
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
        best = sorted(ceilings.tflops.items(), key=lambda each: -each[1])
        products = ", ".join(f"{name} {units.number(value)}" for name, value in best)
        copies = f"memory {units.number(ceilings.device_gb_per_s)} GB/s"
        if ceilings.to_device_gb_per_s is not None:
            copies += f", copies to the GPU {units.number(ceilings.to_device_gb_per_s)} GB/s"
        lines.append(f"  At best: products in TFLOP/s: {products}; {copies}.")
    return lines


def _rows(rows: list[BenchmarkRow]) -> list[tuple[str, ...]]:
    """Returns the rows of a model, the fastest first."""
    ordered = sorted(rows, key=_median, reverse=True)
    best = _median(ordered[0])
    lines = []
    for row in ordered:
        setting = (row.device, row.precision, "jit" if row.jit else "")
        if row.rate is None:
            lines.append((row.model, *setting, "", "failed", "", row.failed_because or ""))
            continue
        bar = "=" * round(_BAR * row.rate.median / best)
        step = units.duration(row.batch / row.rate.median)
        span = units.interval(row.rate.low, row.rate.high)
        lines.append((row.model, *setting, step, units.number(row.rate.median), bar, span))
    return lines


def _choice(model: str, rows: list[BenchmarkRow]) -> str | None:
    """Returns which setting is fastest, and how much faster than the default and than the CPU."""
    best = max(rows, key=_median)
    if best.rate is None:
        return None
    plain_rows = [row for row in rows if row.rate is not None and not row.jit]
    bases = []
    for kind in dict.fromkeys((best.device, "CPU")):
        found = (_of(plain_rows, kind, precision) for precision in DEFAULTS)
        bases.append(next(filter(None, found), None))
    gains = [_gain(best, base) for base in bases if base is not None and base != best]
    return ", ".join((f"{model}: fastest is {_setting(best)}", *gains)) + "."


def _gain(best: BenchmarkRow, base: BenchmarkRow) -> str:
    assert best.rate is not None
    assert base.rate is not None
    if best.rate.low <= base.rate.high:
        return f"not measurably faster than {_setting(base)}"
    return f"{units.number(best.rate.median / base.rate.median)}× {_setting(base)}"


def _of(rows: list[BenchmarkRow], kind: str, precision: str) -> BenchmarkRow | None:
    return next((row for row in rows if (row.device, row.precision) == (kind, precision)), None)


def _setting(row: BenchmarkRow) -> str:
    return f"{row.precision}{' with jit' * row.jit} on the {row.device}"


def _median(row: BenchmarkRow) -> float:
    return 0.0 if row.rate is None else row.rate.median


def _missing(found: MachineBenchmark) -> list[str]:
    names = [name for device in found.devices for name in device.not_measured]
    lines = ["Interrupted: what was measured before is shown."] if found.interrupted else []
    if names:
        missing = ", ".join(names)
        lines.append(f"Not measured within {found.seconds:g} s (--seconds): {missing}.")
    return lines
