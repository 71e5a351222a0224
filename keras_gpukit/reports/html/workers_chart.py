"""A chart that compares the workers of a cluster, or the replicas of a process."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from keras_gpukit.records.report import RunReport
from keras_gpukit.records.worker_comparison import WorkerFigures
from keras_gpukit.reports import units
from keras_gpukit.reports.html.chart import COLORS, Chart, Unknown, draw_bars, row_bars
from keras_gpukit.reports.phrases import compared
from keras_gpukit.reports.tables import Table
from keras_gpukit.rules.cluster.comparison import StepParts, late_member, slow_link, step_parts

_WORKERS = "The workers next to each other"
_MOST_WORKERS = 64
_PARTS = (
    ("compute", "compute_s", COLORS["compute"]),
    ("waiting for input", "input_s", COLORS["input"]),
    ("waiting for other workers", "waiting_s", COLORS["callbacks"]),
    ("exchange", "exchange_s", COLORS["validation"]),
)


def workers_chart(run: RunReport) -> Chart | Unknown | None:
    """Returns a chart with a bar per worker for its mean step; None for a run that trains alone."""
    comparison = run.summary.workers
    if comparison is None or (comparison.expected or 0) < 2:
        return None
    if len(comparison.members) < 2:
        return Unknown(_WORKERS, comparison.unknown_because or "only one of them is known")
    members = comparison.members[:_MOST_WORKERS]
    parts = step_parts(comparison)[:_MOST_WORKERS]
    late = late_member(comparison) or slow_link(comparison) if comparison.is_complete else None
    names = [
        f"{comparison.kind} {each.index}{', straggler' if late and each is late.member else ''}"
        for each in members
    ]
    height = 130 + 30 * len(members)
    figure = draw_bars(_bars(parts), names, "ms per step", height=height)
    rows = tuple(_row(*each) for each in zip(names, members, parts, strict=True))
    heads = (
        *(comparison.kind, "step time", "compute", "input wait", "waiting for others", "exchange"),
        *("GPU busy", "process CPU", "examples", "fastest round trip"),
    )
    words = (
        "Where a step's time goes on each worker, on average. All take the same time for a step; "
        "the one that waits least for the others is the one they wait for."
    )
    told = compared(run.summary)
    caption = f"{words} {told}." if told else words
    return Chart(_WORKERS, caption, figure, Table(heads, rows))


def _bars(parts: Sequence[StepParts]) -> list[Any]:
    return [
        row_bars(
            name,
            place,
            [round(1e3 * (getattr(each, part) or 0.0), 4) for each in parts],
            f"{name}: %{{x:.3~f}} ms per step<extra></extra>",
            color,
        )
        for place, (name, part, color) in enumerate(_PARTS)
        if any(getattr(each, part) is not None for each in parts)
    ]


def _row(name: str, member: WorkerFigures, parts: StepParts) -> tuple[str, ...]:
    trips_s = [trip.lowest_s for trip in member.round_trips]
    times_s = (member.step_time_s, parts.compute_s, parts.input_s, parts.waiting_s)
    return (
        name,
        *(units.known(time_s, units.duration) for time_s in (*times_s, parts.exchange_s)),
        units.known(member.gpu_percent, _percent),
        units.known(member.cpu_percent, _percent),
        units.known(member.examples, units.number),
        units.known(min(trips_s, default=None), units.duration),
    )


def _percent(value: float) -> str:
    return units.percentage(value / 100)
