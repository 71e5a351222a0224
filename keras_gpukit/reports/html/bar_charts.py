"""Charts with a row of bars for each stage of the pipeline, type of operation, or worker."""

from __future__ import annotations

from dataclasses import replace

from keras_gpukit.records.cluster import WorkerFigures
from keras_gpukit.records.pipeline import PipelineRecord
from keras_gpukit.records.report import RunReport
from keras_gpukit.reports import units
from keras_gpukit.reports.html.chart import (
    COLORS,
    Chart,
    Omitted,
    bar,
    draw_bars,
    label,
    row_bars,
    unrecorded,
)
from keras_gpukit.reports.phrases import compared
from keras_gpukit.reports.tables import Table, stage_cost, stages_table
from keras_gpukit.reports.text import operations_table, placement_tables, placement_words
from keras_gpukit.rules.cluster.compared_workers import (
    StepParts,
    late_member,
    slow_link,
    step_parts,
)

_MOST_STAGES = 30
_MOST_DEVICES = 7
_MOST_TYPES = 12
_MOST_WORKERS = 64
_STEP_PARTS = (
    ("compute", "compute_s", COLORS["compute"]),
    ("waiting for input", "input_s", COLORS["input"]),
    ("waiting for other workers", "waiting_s", COLORS["callbacks"]),
    ("exchange", "exchange_s", COLORS["validation"]),
)


def stages_chart(run: RunReport) -> Chart | Omitted:
    """Returns a chart of the time per batch of each stage, the stage nearest to training first."""
    record = run.summary.pipeline
    if record is None or not record.stages:
        because = record.unknown_because if record else None
        usual = unrecorded(run, "the time per stage is known only for tf.data pipelines")
        return Omitted(because or usual)
    stages = record.stages[:_MOST_STAGES]
    traces = []
    kinds = ((False, "keeps up", COLORS["compute"]), (True, "bottleneck", COLORS["input"]))
    for blamed, name, color in kinds:
        # Rows by index, not by name: two stages with the same name must not share a bar.
        places = [at for at, stage in enumerate(stages) if blamed is (stage == record.bottleneck)]
        if places or not blamed:
            traces.append(
                bar(
                    name,
                    int(blamed),
                    color,
                    y=places,
                    x=[(stages[at].cost_per_batch_s or 0.0) * 1e3 for at in places],
                    text=[stage_cost(stages[at]) for at in places],
                    cliponaxis=False,
                    orientation="h",
                    hovertemplate="%{x:.3~f} ms per batch<extra></extra>",
                )
            )
    names = [stage.name for stage in stages]
    figure = draw_bars(traces, names, "ms per batch")
    words = _stage_words(run, record)
    return Chart(words, stages_table(replace(record, stages=stages)), figure)


def _stage_words(run: RunReport, record: PipelineRecord) -> str:
    words = (
        "Time of each stage per batch, all its parallel calls together, from the stage nearest to "
        "training back to the sources."
    )
    step_s = run.summary.step_time_s
    wait_s = run.summary.input.wait_s if run.summary.input else None
    if step_s is not None and wait_s is not None:
        took = units.duration(step_s - wait_s)
        words = f"A step takes {took}, apart from its wait for input. {words}"
    if record.bottleneck is not None:
        return f"{words} {record.bottleneck.name}{record.bottleneck.where} is the bottleneck."
    unnamed = record.balanced_because or record.unknown_because
    return f"{words} No single stage is the bottleneck: {unnamed}." if unnamed else words


def placement_chart(run: RunReport) -> Chart | Omitted:
    """Returns a chart of the most common operations per device, with a table of CPU fallbacks."""
    record = run.summary.operations
    if record is None or not record.operations:
        because = record.unknown_because if record else None
        return Omitted(because or "placement is read from the first step of fit")
    table = operations_table(record, _MOST_TYPES)
    commonest = [kind for kind, *_ in table.rows]
    traces = [
        row_bars(label(device), place, [counts.get(kind, 0) for kind in commonest], "%{x:,}")
        for place, (device, counts) in enumerate(list(record.operations.items())[:_MOST_DEVICES])
    ]
    figure = draw_bars(traces, commonest, "operations", "y unified")
    return Chart(placement_words(record), table, figure, tuple(placement_tables(record)))


def workers_chart(run: RunReport) -> Chart | Omitted | None:
    """Returns a chart with a bar per worker for its mean step; None for a run that trains alone."""
    comparison = run.summary.workers
    if comparison is None or (comparison.expected or 0) < 2:
        return None
    if len(comparison.members) < 2:
        return Omitted(comparison.unknown_because or "only one of them is known")
    members = comparison.members[:_MOST_WORKERS]
    parts = step_parts(comparison)[:_MOST_WORKERS]
    late = late_member(comparison) or slow_link(comparison) if comparison.is_complete else None
    names = [
        f"{comparison.kind} {member.index}{', straggler' if late and member is late.member else ''}"
        for member in members
    ]
    traces = [
        row_bars(
            name,
            place,
            [round(1e3 * (getattr(split, part) or 0.0), 4) for split in parts],
            f"{name}: %{{x:.3~f}} ms per step<extra></extra>",
            color,
        )
        for place, (name, part, color) in enumerate(_STEP_PARTS)
        if any(getattr(split, part) is not None for split in parts)
    ]
    figure = draw_bars(traces, names, "ms per step")
    heads = (
        *(comparison.kind, "step time", "compute", "input wait", "waiting for others", "exchange"),
        *("GPU busy", "process CPU", "examples", "fastest round trip"),
    )
    words = (
        "Where a step's time goes on each worker, on average. All take the same time for a step; "
        "the one that waits least for the others is the one they wait for."
    )
    known = compared(run.summary)
    rows = tuple(_worker_row(*worker) for worker in zip(names, members, parts, strict=True))
    return Chart(f"{words} {known}." if known else words, Table(heads, rows), figure)


def _worker_row(name: str, member: WorkerFigures, parts: StepParts) -> tuple[str, ...]:
    times_s = (member.step_time_s, parts.compute_s, parts.input_s, parts.waiting_s)
    trip_s = min((trip.lowest_s for trip in member.round_trips), default=None)
    return (
        name,
        *(units.known(time_s, units.duration) for time_s in (*times_s, parts.exchange_s)),
        units.known(member.gpu_percent, _percent),
        units.known(member.cpu_percent, _percent),
        units.known(member.examples, units.number),
        units.known(trip_s, units.duration),
    )


def _percent(value: float) -> str:
    return units.percentage(value / 100)
