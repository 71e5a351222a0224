"""Pictures of what a run is made of: its wall time, its pipeline's stages, its operations."""

from __future__ import annotations

from typing import Any

from keras_gpukit.records.pipeline import PipelineRecord
from keras_gpukit.records.placement import PlacementRecord
from keras_gpukit.records.report import RunReport
from keras_gpukit.reports import units
from keras_gpukit.reports.html.picture import (
    COLORS,
    DASHES,
    PALETTE,
    PATTERNS,
    Picture,
    Table,
    Unknown,
    axis,
    draw,
    label,
)
from keras_gpukit.reports.phrases import time_spent

_WALL_TIME = "Where the whole run's time went"
_STAGES = "Stages of the input pipeline"
_PLACEMENT = "Where operations ran"
_MOST_STAGES = 30
_MOST_TYPES = 12
_MOST_FALLBACKS = 30
_LEAST_LABELLED = 0.06


def wall_time_picture(run: RunReport) -> Picture | Unknown:
    """One bar, from the run's begin to its end."""
    parts = run.summary.breakdown
    if parts is None or parts.wall_s <= 0:
        return Unknown(_WALL_TIME, _not_told(run, "it was not measured for every step"))
    named = (
        ("compute", parts.compute_s, COLORS["compute"], "the step's own work"),
        ("input", parts.input_s, COLORS["input"], "steps waiting for their batches"),
        ("first step", parts.first_step_s, COLORS["first step"], "tracing, compiling, first batch"),
        ("epoch starts", parts.epoch_start_s, COLORS["epoch starts"], "epochs' first batches"),
        ("validation", parts.validation_s, COLORS["validation"], "validation within fit"),
        ("callbacks", parts.callbacks_s, COLORS["callbacks"], "callbacks, and Keras' own loop"),
        ("other", parts.other_s, COLORS["other"], "what Keras does at epochs' ends"),
    )
    known = [part for part in named if part[1]]
    traces = [
        _segment(name, spent_s or 0.0, parts.wall_s, color, PATTERNS[place])
        for place, (name, spent_s, color, _) in enumerate(known)
    ]
    rows = tuple(
        (name, what, _duration(spent_s), "" if spent_s is None else _share(spent_s / parts.wall_s))
        for name, spent_s, _, what in named
    )
    figure = draw(
        traces,
        height=170,
        barmode="stack",
        hovermode="closest",
        xaxis=axis("seconds", range=[0, parts.wall_s]),
        yaxis={"visible": False, "fixedrange": True},
        margin={"l": 8, "r": 16, "t": 12, "b": 48},
    )
    words = f"{time_spent(run.summary) or ''}."
    return Picture(_WALL_TIME, words, figure, Table(("part", "what it is", "time", "share"), rows))


def stages_picture(run: RunReport) -> Picture | Unknown:
    """What each stage costs for a batch, that nearest to training first."""
    record = run.summary.input.pipeline if run.summary.input else None
    if record is None or not record.stages:
        because = record.unknown_because if record else None
        usual = _not_told(run, "only of tf.data pipelines is told what stages cost")
        return Unknown(_STAGES, because or usual)
    from plotly import graph_objects as go

    stages = record.stages[:_MOST_STAGES]
    is_to_blame = [stage == record.bottleneck for stage in stages]

    def bars(name: str, blamed: bool, color: str, pattern: str) -> go.Bar:
        places = [place for place, each in enumerate(is_to_blame) if each is blamed]
        return go.Bar(
            # Two stages may have one name, and must not share a bar.
            y=places,
            x=[(stages[place].cost_per_batch_s or 0.0) * 1e3 for place in places],
            name=name,
            orientation="h",
            marker={"color": color, "pattern": {"shape": pattern, "solidity": 0.2}},
            hovertemplate="%{x:.3~f} ms a batch<extra></extra>",
        )

    traces = [bars("keeps up", False, COLORS["compute"], "")]
    if any(is_to_blame):
        traces.append(bars("holds the run up", True, COLORS["input"], "/"))
    names = [label(stage.name, 24) for stage in stages]
    figure = draw(
        traces,
        height=110 + 30 * len(stages),
        barmode="overlay",
        hovermode="closest",
        xaxis=axis("ms for each batch", rangemode="tozero"),
        yaxis=_names_axis(names),
    )
    rows = tuple(
        (
            stage.name,
            stage.location or "",
            stage.work,
            _duration(stage.cost_per_batch_s),
            f"{stage.parallelism:,}",
            "" if stage.buffered_after is None else units.number(stage.buffered_after),
            "holds the run up" if blamed else "",
        )
        for stage, blamed in zip(stages, is_to_blame, strict=True)
    )
    heads = ("stage", "where", "work", "time per batch", "at once", "buffered after", "")
    return Picture(_STAGES, _stage_words(record), figure, Table(heads, rows))


def placement_picture(run: RunReport) -> Picture | Unknown:
    """The commonest operations by device, and those that are not where they could be."""
    record = run.summary.operations
    if record is None or not record.operations:
        because = record.unknown_because if record else None
        return Unknown(_PLACEMENT, because or "placement is read from the first step of fit")
    from plotly import graph_objects as go

    totals: dict[str, int] = {}
    for counts in record.operations.values():
        for kind, count in counts.items():
            totals[kind] = totals.get(kind, 0) + count
    commonest = sorted(totals, key=lambda kind: -totals[kind])[:_MOST_TYPES]
    traces = [
        go.Bar(
            y=list(range(len(commonest))),
            x=[counts.get(kind, 0) for kind in commonest],
            name=label(device),
            orientation="h",
            marker={
                "color": PALETTE[place % len(PALETTE)],
                "pattern": {"shape": PATTERNS[place % len(PATTERNS)], "solidity": 0.2},
            },
            hovertemplate="%{x:,}",
        )
        for place, (device, counts) in enumerate(list(record.operations.items())[: len(DASHES)])
    ]
    figure = draw(
        traces,
        height=100 + 24 * len(commonest),
        barmode="stack",
        hovermode="y unified",
        xaxis=axis("operations", rangemode="tozero"),
        yaxis=_names_axis([label(kind, 24) for kind in commonest]),
    )
    rows = tuple(
        (kind, *(f"{counts.get(kind, 0):,}" for counts in record.operations.values()))
        for kind in commonest
    )
    others = len(totals) - len(commonest)
    note = f"And {others:,} rarer types." if others else ""
    table = Table(("operation", *record.operations), rows, note)
    return Picture(_PLACEMENT, _placement_words(record), figure, table, _fallbacks(record))


def _not_told(run: RunReport, because: str) -> str:
    """Why something is missing that a run tells at its end."""
    over = run.state in ("completed", "interrupted")
    return because if over else "runs tell it when they end"


def _segment(name: str, spent_s: float, wall_s: float, color: str, pattern: str) -> Any:
    from plotly import graph_objects as go

    share = spent_s / wall_s
    is_labelled = share > _LEAST_LABELLED
    return go.Bar(
        x=[spent_s],
        y=[0],
        name=name,
        orientation="h",
        # What its label tells, no pattern has to.
        marker={
            "color": color,
            "pattern": {"shape": "" if is_labelled else pattern, "solidity": 0.2},
        },
        text=[f"{name} {_share(share)}" if is_labelled else ""],
        textposition="inside",
        insidetextanchor="middle",
        textangle=0,
        hovertemplate=f"{name}: %{{x:.3~f}} s, {_share(share)}<extra></extra>",
    )


def _names_axis(names: list[str]) -> dict[str, Any]:
    """Names down the side, the first on top."""
    return {
        "tickmode": "array",
        "tickvals": list(range(len(names))),
        "ticktext": names,
        "range": [len(names) - 0.4, -0.6],
        "automargin": True,
        "fixedrange": True,
        "zeroline": False,
        "showgrid": False,
    }


def _stage_words(record: PipelineRecord) -> str:
    words = "What each stage costs for a batch, from the one nearest to training to the sources. "
    if record.bottleneck is not None:
        where = f" ({record.bottleneck.location})" if record.bottleneck.location else ""
        return f"{words}{record.bottleneck.name}{where} holds the run up."
    unnamed = record.balanced_because or record.unknown_because
    return f"{words}None is to blame: {unnamed}." if unnamed else words.strip()


def _placement_words(record: PlacementRecord) -> str:
    total = ", ".join(f"{count:,} on {device}" for device, count in record.by_device.items())
    words = f"Operations of the training step: {total}."
    if record.transfers is not None:
        words += f" Copies between devices in each step: {record.transfers:,}."
    if record.fallbacks:
        count = sum(fallback.count for fallback in record.fallbacks)
        would = (
            "would be on the CPU even with a GPU" if record.predicted else "fell back to the CPU"
        )
        words += f" {count:,} {would}."
    return words


def _fallbacks(record: PlacementRecord) -> tuple[tuple[str, Table], ...]:
    if not record.fallbacks:
        return ()
    rows = tuple(
        (each.operation, f"{each.count:,}", each.reason, ", ".join(each.names))
        for each in record.fallbacks[:_MOST_FALLBACKS]
    )
    others = len(record.fallbacks) - len(rows)
    title = "Would be on the CPU" if record.predicted else "Not on the GPU, and why"
    note = f"And {others:,} other types." if others else ""
    return ((title, Table(("operation", "count", "reason", "such as"), rows, note)),)


def _duration(spent_s: float | None) -> str:
    return "unknown" if spent_s is None else units.duration(spent_s)


def _share(fraction: float) -> str:
    return units.percentage(fraction)
