"""Chart and tables of the time of a captured step by layer."""

from __future__ import annotations

from collections.abc import Sequence

from keras_gpukit.records.profile import LayerProfile, ProfileRecord
from keras_gpukit.reports import units
from keras_gpukit.reports.html.chart import COLORS, Chart, Omitted, draw_bars, row_bars
from keras_gpukit.reports.layers import (
    kernels_table,
    kinds_of,
    kinds_of_layers,
    layers_table,
    names_of,
    tensor_cores,
)
from keras_gpukit.reports.tables import Table

_MOST_DRAWN = 12
_TRACES = (
    ("forward", COLORS["compute"]),
    ("backward", COLORS["validation"]),
    ("optimizer", COLORS["callbacks"]),
    ("of no layer", COLORS["other"]),
)


def layers_chart(profile: ProfileRecord | None) -> Chart | Omitted | None:
    """Returns a chart with a bar for each layer, the one that takes the most time on top.

    What belongs to no layer comes last.
    """
    if profile is None or not profile.steps:
        return None
    whole_s = sum(each.time_s for each in profile.layers)
    if not whole_s:
        return Omitted("no operation in the profile names its layer")
    named = [*zip(names_of(profile.layers), profile.layers, strict=True)]
    named.sort(key=lambda layer: (layer[1].role == "other", -layer[1].time_s))
    inside = sum(each.role != "other" for _, each in named)
    drawn = [(name, _parts_ms([each])) for name, each in named]
    if inside > _MOST_DRAWN:
        others = [each for _, each in named[_MOST_DRAWN:inside]]
        drawn[_MOST_DRAWN:inside] = [(units.count(len(others), "other layer"), _parts_ms(others))]
    names = [name for name, _ in drawn]
    traces = [
        row_bars(name, place, spent_ms, "%{x:.3~f} ms", color)
        for place, (name, color) in enumerate(_TRACES)
        if any(spent_ms := [parts_ms[place] for _, parts_ms in drawn])
    ]
    height = 130 + 26 * len(names)
    rows = tuple(
        (
            f"{name} ×{count:,}" if count > 1 else name,
            units.percentage(each.time_s / whole_s),
            kinds_of(each.kinds_s, 1),
            tensor_cores(each),
        )
        for name, count, each in kinds_of_layers(profile)[:_MOST_DRAWN]
    )
    return Chart(
        _words(profile, whole_s),
        layers_table(profile),
        draw_bars(traces, names, "ms a step", height=height, hovermode="y unified"),
        (("Largest kernels of each layer", kernels_table(profile)),),
        shown=Table(("kind of layer", "share", "mostly", "Tensor Cores"), rows),
        shown_title="By kind of layer",
    )


def _words(profile: ProfileRecord, whole_s: float) -> str:
    where = ", ".join(each.device for each in profile.devices) or "the CPU"
    words = f"A step computes for {units.duration(whole_s)} on {where}: "
    words += f"{kinds_of(profile.kinds_s, 5)}."
    cores = [
        f"{units.percentage(each.tensor_core_fraction)} of it in Tensor Cores"
        for each in profile.devices
        if each.tensor_core_fraction is not None
    ]
    return f"{words} {cores[0]}." if len(cores) == 1 else words


def _parts_ms(layers: Sequence[LayerProfile]) -> list[float]:
    """Returns the milliseconds of layers in each trace of the chart."""
    parts_s = [0.0] * len(_TRACES)
    for each in layers:
        if each.role in ("optimizer", "other"):
            parts_s[2 + (each.role == "other")] += each.time_s
        else:
            parts_s[0] += each.time_s - each.backward_s
            parts_s[1] += each.backward_s
    return [round(1e3 * part_s, 5) for part_s in parts_s]
