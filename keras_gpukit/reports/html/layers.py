"""Chart and tables of the time of a captured step by layer."""

from __future__ import annotations

from keras_gpukit.records.profile import LayerProfile, ProfileRecord
from keras_gpukit.reports import units
from keras_gpukit.reports.html.chart import COLORS, Chart, Omitted, draw_bars, row_bars
from keras_gpukit.reports.layers import kernels_table, kinds_of, kinds_table, layers_table, names_of

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
    left_out = named[_MOST_DRAWN:inside]
    drawn = [*named[: min(inside, _MOST_DRAWN)], *named[inside:]]
    traces = [
        row_bars(name, place, spent_ms, "%{x:.3~f} ms", color)
        for place, (name, color) in enumerate(_TRACES)
        if any(spent_ms := [_parts_ms(each)[place] for _, each in drawn])
    ]
    names = [name for name, _ in drawn]
    words = _words(profile, whole_s)
    if left_out:
        share = sum(each.time_s for _, each in left_out) / whole_s
        words += f" {units.count(len(left_out), 'smaller layer')}, {units.percentage(share)} of it"
        words += " together, are in the numbers."
    return Chart(
        words,
        layers_table(profile),
        draw_bars(traces, names, "ms a step", "y unified"),
        (("Largest kernels of each layer", kernels_table(profile)),),
        shown=("By kind of layer", kinds_table(profile, _MOST_DRAWN)),
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


def _parts_ms(layer: LayerProfile) -> tuple[float, float, float, float]:
    """Returns the milliseconds of a layer in each trace of the chart."""
    time_ms, backward_ms = round(1e3 * layer.time_s, 5), round(1e3 * layer.backward_s, 5)
    if layer.role == "optimizer":
        return 0.0, 0.0, time_ms, 0.0
    if layer.role == "other":
        return 0.0, 0.0, 0.0, time_ms
    return round(time_ms - backward_ms, 5), backward_ms, 0.0, 0.0
