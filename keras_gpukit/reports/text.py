"""Markdown for TensorBoard's Text tab."""

from __future__ import annotations

from keras_gpukit.records.finding import Verdict
from keras_gpukit.records.profile import ProfileRecord
from keras_gpukit.records.run import RunSummary
from keras_gpukit.records.steps import InputRecord
from keras_gpukit.reports import phrases, units
from keras_gpukit.reports.evidence import in_one_line
from keras_gpukit.reports.layers import kinds_table, near_the_limits
from keras_gpukit.reports.tables import Table, markdown_table, stages_table

_MOST_LAYERS = 8


def markdown(summary: RunSummary) -> str:
    """Returns a run's figures and verdict as Markdown."""
    parts = (
        ", ".join(phrases.headline(summary)) or "Nothing was measured.",
        phrases.time_spent(summary),
        summary.verdict.context,
        phrases.correction(summary),
        near_the_limits(summary),
        phrases.compared(summary),
        phrases.captured(summary),
        None if phrases.worst(summary) else phrases.all_well(summary),
        findings_markdown(summary.verdict),
        _layers_markdown(summary.profile) if summary.profile and summary.profile.layers else None,
        _input_markdown(summary.input) if summary.input else None,
    )
    return "\n\n".join(part for part in parts if part)


def findings_markdown(verdict: Verdict) -> str:
    """Returns every finding with all of its advice, then how many checks don't apply."""
    blocks = []
    for finding in verdict.findings:
        blocks.append(f"### {finding.severity}: {finding.title} (`{finding.code}`)")
        blocks.append(in_one_line(finding))
        blocks.append("\n".join(f"- {line}" for line in finding.advice))
    blocks.append(phrases.checks(verdict) or "")
    return "\n\n".join(filter(None, blocks))


def _layers_markdown(profile: ProfileRecord) -> str:
    """Returns a table of the kinds of layers that take the most time."""
    return f"### Time by kind of layer\n\n{markdown_table(kinds_table(profile, _MOST_LAYERS))}"


def _input_markdown(record: InputRecord) -> str:
    """Returns tables of the wait per step (distribution) and of the pipeline's stages."""
    blocks = []
    distribution = record.distribution
    if distribution is not None:
        waits = (
            ("median", distribution.median_s),
            ("95 %", distribution.p95_s),
            ("worst", distribution.worst_s),
        )
        rows = [(name, units.duration(wait_s)) for name, wait_s in waits]
        rows.append(("steps stalled", units.percentage(distribution.stalled_fraction)))
        if distribution.burst_period_steps is not None:
            rows.append(("a stall every", f"{units.number(distribution.burst_period_steps)} steps"))
        blocks += ["### Wait per step", markdown_table(Table(("", ""), tuple(rows)))]
    if record.pipeline is not None and record.pipeline.stages:
        blocks += ["### Stages of the pipeline", markdown_table(stages_table(record.pipeline))]
        unnamed = record.pipeline.balanced_because or record.pipeline.unknown_because
        if unnamed:
            blocks.append(f"No single stage is the bottleneck: {unnamed}.")
    return "\n\n".join(blocks)
