"""How near a run is to its GPU's limits: a sentence, and the figures behind it as a table."""

from __future__ import annotations

from keras_gpukit.records.report import RunReport
from keras_gpukit.reports import units
from keras_gpukit.reports.html.chart import Chart, Omitted
from keras_gpukit.reports.roofline import achieved, limited_by
from keras_gpukit.reports.tables import Table
from keras_gpukit.rules.compute.roofline import Roofline, roofline_of


def roofline_table(run: RunReport) -> Chart | Omitted | None:
    """Returns the figures of a run on a GPU; None for others."""
    found = roofline_of(run.summary)
    if not isinstance(found, Roofline):
        return Omitted(f"unknown is {found}") if found else None
    uncounted = run.summary.flops.uncounted if run.summary.flops else ()
    types = Table(("type",), tuple((each,) for each in uncounted))
    more = (("Operations whose arithmetic is not counted", types),) if uncounted else ()
    source = "keras-gpukit bench" if found.is_measured else "NVIDIA's data sheet"
    words = f"{achieved(found)}: {limited_by(found)}. The GPU's limits are from {source}."
    return Chart(words, _table(found), more=more)


def _table(found: Roofline) -> Table:
    ratio = None if found.moved_bytes is None else found.flops / found.moved_bytes
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
