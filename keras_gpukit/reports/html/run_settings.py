"""The settings of a run, as far as its record has them: what two runs may differ in."""

from __future__ import annotations

from collections.abc import Sequence

from keras_gpukit.records.report import RunReport
from keras_gpukit.records.run import RunSummary
from keras_gpukit.reports import units
from keras_gpukit.reports.html import words

MOST_COLUMNS = 6


def settings(run: RunReport) -> dict[str, str]:
    """Returns the settings by name, those that people change most often first."""
    summary = run.summary
    versions = summary.environment.versions
    setup = dict(words.setup(summary))
    told = {
        "call": run.phase,
        "examples per step": _examples_per_step(summary),
        **{name: value for name, value in setup.items() if name not in versions},
        "input pipeline": _pipeline(summary),
        **versions,
    }
    return {name: value for name, value in told.items() if value is not None}


def differing(runs: Sequence[dict[str, str]]) -> tuple[str, ...]:
    """Returns the names of settings that are not the same in all runs, in their order."""
    names = dict.fromkeys(name for each in runs for name in each)
    return tuple(name for name in names if len({each.get(name) for each in runs}) > 1)


def columns(runs: Sequence[dict[str, str]]) -> tuple[str, ...]:
    """Returns which settings get a column: short ones that differ, and not for every run."""
    many = max(2, len(runs) // 2)
    return tuple(
        name
        for name in differing(runs)
        if name != "input pipeline" and len({each.get(name) for each in runs}) <= many
    )[:MOST_COLUMNS]


def _examples_per_step(summary: RunSummary) -> str | None:
    """The batch that a step trains on: what is left of the rate and the step time."""
    rate, step_s = summary.examples_per_s, summary.step_time_s
    if not rate or not step_s:
        return None
    examples = rate * step_s
    # A last batch with fewer examples leaves the mean a little below.
    whole = abs(examples - round(examples)) <= 0.01 * examples
    return f"{examples:,.0f}" if whole else units.number(examples)


def _pipeline(summary: RunSummary) -> str | None:
    """The stages, from the sources to training."""
    pipeline = summary.pipeline
    if pipeline is None or not pipeline.stages:
        return None
    return ", ".join(
        stage.kind if stage.name == stage.kind else f"{stage.kind} {stage.name}"
        for stage in reversed(pipeline.stages)
    )
