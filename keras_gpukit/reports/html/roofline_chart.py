"""The roofline: what a GPU can reach at each ratio of computing to moving, and what a run does."""

from __future__ import annotations

from keras_gpukit.records.report import RunReport
from keras_gpukit.reports import units
from keras_gpukit.reports.html.chart import COLORS, Chart, Omitted, Trace, axis, dashed, draw
from keras_gpukit.reports.roofline import achieved, limited_by
from keras_gpukit.reports.tables import Table
from keras_gpukit.rules.compute.roofline import Roofline, roofline_of

_SPAN = 100.0
"""The chart shows ratios up to this factor below and above the ridges and the run."""


def roofline_chart(run: RunReport) -> Chart | Omitted | None:
    """Returns a roofline chart of a run on a GPU; None for others."""
    found = roofline_of(run.summary)
    if not isinstance(found, Roofline):
        return Omitted(f"unknown is {found}") if found else None
    gb_per_s = found.ceilings.device_gb_per_s
    tflops = {each: found.ceilings.tflops[each] for each in found.precisions}
    # From here on a product is limited by computing, not by memory: FLOPs per byte.
    ridges = {each: 1e3 * reached / gb_per_s for each, reached in tflops.items()}
    ratio = None if found.moved_bytes is None else found.flops / found.moved_bytes
    places = [*ridges.values(), *([ratio] if ratio else [])]
    low, high = min(places) / _SPAN, max(places) * _SPAN
    traces: list[Trace] = [
        {
            "type": "scatter",
            "mode": "lines",
            "name": f"at most, {each}",
            "x": [low, ridge, high],
            "y": [1e-3 * low * gb_per_s, tflops[each], tflops[each]],
            "line": dashed(place),
            "hovertemplate": "%{y:.3s} TFLOP/s",
        }
        for place, (each, ridge) in enumerate(ridges.items())
    ]
    traces.append(
        {
            "type": "scatter",
            # Without bytes, the run may be anywhere on its line.
            "mode": "markers" if ratio else "lines",
            "name": "this run",
            "x": [ratio] if ratio else [low, high],
            "y": [found.tflops] * (1 if ratio else 2),
            "marker": {"size": 14, "symbol": "diamond", "color": COLORS["epoch starts"]},
            "line": {"width": 3, "color": COLORS["epoch starts"]},
            "hovertemplate": "%{y:.3s} TFLOP/s",
        }
    )
    figure = draw(
        traces,
        height=340,
        hovermode="closest",
        xaxis=axis("FLOPs per byte moved", type="log", dtick=1),
        yaxis=axis("TFLOP/s", type="log", dtick=1),
    )
    uncounted = run.summary.flops.uncounted if run.summary.flops else ()
    types = Table(("type",), tuple((each,) for each in uncounted))
    more = (("Operations whose arithmetic is not counted", types),) if uncounted else ()
    return Chart(_words(found), _table(found, ratio), figure, more)


def _words(found: Roofline) -> str:
    words = f"{achieved(found)}: {limited_by(found)}. "
    source = "keras-gpukit bench" if found.is_measured else "NVIDIA's data sheet"
    words += (
        f"The lines are what the GPU reaches at most, by {source}: memory limits where they rise. "
    )
    if found.moved_bytes is None:
        return words + "How many bytes the step moves is unknown, so the run is a line too."
    return words + "The bytes are those of all operations of the step, each on its own."


def _table(found: Roofline, ratio: float | None) -> Table:
    rows = [
        ("FLOPs of a step", f"{found.flops:.4g}"),
        ("step time", units.duration(found.step_s)),
        ("achieved", f"{units.number(found.tflops)} TFLOP/s"),
        ("share of the peak", units.percentage(found.share)),
        ("bytes moved", units.known(found.moved_bytes, units.size)),
        ("FLOPs per byte", units.known(ratio, units.number)),
        ("memory, at most", f"{units.number(found.ceilings.device_gb_per_s)} GB/s"),
    ]
    rows += [
        (f"products in {each}, at most", f"{units.number(reached)} TFLOP/s")
        for each, reached in found.ceilings.tflops.items()
    ]
    return Table(("", ""), tuple(rows))
