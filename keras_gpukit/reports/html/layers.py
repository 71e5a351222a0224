"""Chart and tables of the time of a captured step by layer."""

from __future__ import annotations

from keras_gpukit.records.profile import LayerProfile, ProfileRecord
from keras_gpukit.reports import units
from keras_gpukit.reports.html.chart import COLORS, Chart, Omitted, draw_bars, row_bars
from keras_gpukit.reports.layers import (
    kernels_table,
    kinds_of,
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
    """Returns a chart with a bar for each layer, the one that takes the most time on top."""
    if profile is None or not profile.steps:
        return None
    whole_s = sum(each.time_s for each in profile.layers)
    if not whole_s:
        return Omitted("no operation in the profile names its layer")
    named = list(zip(names_of(profile.layers), profile.layers, strict=True))
    named.sort(key=lambda layer: -layer[1].time_s)
    drawn, others = named[:_MOST_DRAWN], named[_MOST_DRAWN:]
    if others:
        name = units.count(len(others), "other layer")
        drawn.append((name, _together([each for _, each in others])))
    traces = [
        row_bars(name, place, spent_ms, "%{x:.3~f} ms", color)
        for place, (name, color) in enumerate(_TRACES)
        if any(spent_ms := [_milliseconds(each)[place] for _, each in drawn])
    ]
    names = [name for name, _ in drawn]
    height = 130 + 26 * len(names)
    rows = tuple(
        (
            name,
            units.duration(each.time_s),
            units.percentage(each.time_s / whole_s),
            kinds_of(each.kinds_s, 2),
            tensor_cores(each),
        )
        for name, each in drawn
    )
    return Chart(
        _words(profile, whole_s),
        layers_table(profile),
        draw_bars(traces, names, "ms a step", height=height, hovermode="y unified"),
        (("Largest kernels of each layer", kernels_table(profile)),),
        shown=Table(("layer", "time", "share", "mostly", "Tensor Cores"), rows),
        shown_title="The layers that take the most time",
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


def _milliseconds(layer: LayerProfile) -> tuple[float, float, float, float]:
    """Returns the time of a layer in each trace of the chart."""
    time, backward = round(1e3 * layer.time_s, 5), round(1e3 * layer.backward_s, 5)
    if layer.role == "optimizer":
        return 0.0, 0.0, time, 0.0
    if layer.role == "other":
        return 0.0, 0.0, 0.0, time
    return round(time - backward, 5), backward, 0.0, 0.0


def _together(layers: list[LayerProfile]) -> LayerProfile:
    """Sums layers up to one."""
    time_s = sum(each.time_s for each in layers)
    kinds = {kind for each in layers for kind in each.kinds_s}
    known = [each for each in layers if each.tensor_core_fraction is not None]
    return LayerProfile(
        "",
        "layer",
        time_s,
        sum(each.backward_s for each in layers),
        {kind: sum(each.kinds_s.get(kind, 0.0) for each in layers) for kind in kinds},
        sum(each.kernels for each in layers),
        sum(each.time_s * (each.tensor_core_fraction or 0.0) for each in known) / time_s
        if known and time_s
        else None,
    )
