"""A chart of allocator memory during a capture."""

from __future__ import annotations

from collections.abc import Sequence

from keras_gpukit.records.report import CaptureReport
from keras_gpukit.reports import units
from keras_gpukit.reports.html.capture_tables import holdings_tables
from keras_gpukit.reports.html.chart import (
    DASHES,
    PALETTE,
    Chart,
    Table,
    Unknown,
    axis,
    draw,
    label,
)

_MEMORY = "Memory during the newest capture"


def capture_memory_chart(captures: Sequence[CaptureReport]) -> Chart | Unknown:
    """Returns a chart of the memory per allocator during the newest capture, with its peak."""
    from plotly import graph_objects as go

    memories = [each.profile.memory for each in captures if each.profile and each.profile.memory]
    if not memories:
        return Unknown(_MEMORY, "no profile has readings of an allocator")
    traces = [
        go.Scatter(
            x=[round(point.time_s * 1e3, 3) for point in memory.timeline],
            y=[round(point.used_bytes / 2**20, 3) for point in memory.timeline],
            name=label(memory.allocator),
            line={
                "width": 2,
                "shape": "hv",
                "color": PALETTE[place % len(PALETTE)],
                "dash": DASHES[place % len(DASHES)],
            },
            hovertemplate="%{y:.4~f} MiB",
        )
        for place, memory in enumerate(memories[-1])
    ]
    figure = draw(
        traces,
        xaxis=axis("ms since the first captured step began"),
        yaxis=axis("MiB", rangemode="tozero"),
    )
    rows = tuple(
        (
            memory.allocator,
            units.size(memory.peak_bytes),
            units.known(memory.total_bytes, units.size, ""),
            units.known(memory.before_bytes, units.size, ""),
            units.known(memory.fragmentation, units.percentage, ""),
        )
        for memory in memories[-1]
    )
    heads = (
        "allocator",
        "peak",
        "total",
        "of the peak, from before the capture",
        "of its free memory, not in the largest block",
    )
    words = [
        f"{memory.allocator} held at most {units.size(memory.peak_bytes)}"
        for memory in memories[-1]
    ]
    more = tuple(holdings_tables(memories[-1]))
    return Chart(_MEMORY, f"{'; '.join(words)}.", figure, Table(heads, rows), more)
