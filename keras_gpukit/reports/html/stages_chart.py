"""A chart of the input pipeline's stages."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from keras_gpukit.records.pipeline import PipelineRecord, StageRecord
from keras_gpukit.records.report import RunReport
from keras_gpukit.reports import units
from keras_gpukit.reports.html.chart import COLORS, Chart, Unknown, bar, draw_bars, label
from keras_gpukit.reports.html.words import not_told
from keras_gpukit.reports.tables import stages_table

_STAGES = "Stages of the input pipeline"
_MOST_STAGES = 30


def stages_chart(run: RunReport) -> Chart | Unknown:
    """Returns a chart of the time per batch of each stage, the stage nearest to training first."""
    record = run.summary.pipeline
    if record is None or not record.stages:
        because = record.unknown_because if record else None
        usual = not_told(run, "the time per stage is known only for tf.data pipelines")
        return Unknown(_STAGES, because or usual)
    stages = record.stages[:_MOST_STAGES]
    is_to_blame = [stage == record.bottleneck for stage in stages]

    def bars(name: str, blamed: bool, color: str) -> Any:
        places = [place for place, each in enumerate(is_to_blame) if each is blamed]
        return bar(
            name,
            int(blamed),
            color,
            # Rows by index, not by name: two stages with the same name must not share a bar.
            y=places,
            x=[(stages[place].cost_per_batch_s or 0.0) * 1e3 for place in places],
            text=[stage_cost(stages[place]) for place in places],
            cliponaxis=False,
            orientation="h",
            hovertemplate="%{x:.3~f} ms per batch<extra></extra>",
        )

    traces = [bars("keeps up", False, COLORS["compute"])]
    if any(is_to_blame):
        traces.append(bars("bottleneck", True, COLORS["input"]))
    names = [label(stage.name, 24) for stage in stages]
    height = 110 + 30 * len(stages)
    figure = draw_bars(traces, names, "ms per batch", height=height)
    shown = replace(record, stages=stages)
    return Chart(_STAGES, _step_words(run) + _stage_words(record), figure, stages_table(shown))


def stage_cost(stage: StageRecord) -> str:
    """Returns a stage's time per batch, and its parallelism above 1: "16 ms, 2 parallel"."""
    spent = units.known(stage.cost_per_batch_s, units.duration)
    return f"{spent}, {stage.parallelism:,} parallel" if stage.parallelism > 1 else spent


def _step_words(run: RunReport) -> str:
    """Returns a sentence with the step time without the wait; "" if unknown."""
    step_s, record = run.summary.step_time_s, run.summary.input
    wait_s = record.wait_s if record else None
    if step_s is None or wait_s is None:
        return ""
    return f"A step takes {units.duration(step_s - wait_s)}, apart from its wait for input. "


def _stage_words(record: PipelineRecord) -> str:
    words = (
        "Time of each stage per batch, all its parallel calls together, from the stage nearest to "
        "training back to the sources. "
    )
    if record.bottleneck is not None:
        return f"{words}{record.bottleneck.name}{record.bottleneck.where} is the bottleneck."
    unnamed = record.balanced_because or record.unknown_because
    return f"{words}No single stage is the bottleneck: {unnamed}." if unnamed else words.strip()
