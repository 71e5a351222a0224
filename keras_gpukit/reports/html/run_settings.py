"""The recorded settings of runs, for comparisons between runs."""

from __future__ import annotations

from collections.abc import Sequence

from keras_gpukit.records.report import RunReport
from keras_gpukit.records.run import RunSummary
from keras_gpukit.reports import units
from keras_gpukit.reports.html import words


def settings(run: RunReport) -> dict[str, str]:
    """Returns a run's settings by name, the most frequently changed settings first."""
    summary = run.summary
    versions = summary.environment.versions
    setup = dict(words.setup(summary))
    told = {
        "call": run.phase,
        "examples per step": _examples_per_step(summary),
        **{name: value for name, value in setup.items() if name not in versions},
        **versions,
    }
    return {name: value for name, value in told.items() if value is not None}


def differing(runs: Sequence[dict[str, str]]) -> tuple[str, ...]:
    """Returns the names of settings that differ between runs, in the settings' order."""
    names = dict.fromkeys(name for each in runs for name in each)
    return tuple(name for name in names if len({each.get(name) for each in runs}) > 1)


def _examples_per_step(summary: RunSummary) -> str | None:
    """Returns the batch size of a step, computed from examples per second and the step time."""
    rate, step_s = summary.examples_per_s, summary.step_time_s
    if not rate or not step_s:
        return None
    examples = rate * step_s
    # A smaller last batch lowers the mean slightly below the batch size.
    whole = abs(examples - round(examples)) <= 0.01 * examples
    return f"{examples:,.0f}" if whole else units.number(examples)
