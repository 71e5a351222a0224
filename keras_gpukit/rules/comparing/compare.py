"""Compares two runs by their records."""

from __future__ import annotations

from dataclasses import replace

from keras_gpukit.records.comparison import RunComparison
from keras_gpukit.records.report import RunReport
from keras_gpukit.records.run import RunSummary
from keras_gpukit.rules.comparing.causes import causes
from keras_gpukit.rules.comparing.figures import changes, step_parts
from keras_gpukit.rules.comparing.pairs import (
    differing,
    layer_pairs,
    operation_pairs,
    run_parts,
    stage_pairs,
)
from keras_gpukit.rules.comparing.settings import settings_of

SAME_BATCH = 0.03
"""Relative difference of the examples per step that is noise; they are computed from two means."""
_BATCH = "examples per step"


def compare_runs(a: RunReport, b: RunReport) -> RunComparison:
    """Compares a run with an earlier one, or one with a change, by what both recorded.

    Args:
        a: Run that is compared with, such as that of the main branch.
        b: Run that may be slower or faster.
    """
    ours, theirs = a.summary, b.summary
    settings = settings_of(a), settings_of(b)
    has_same_batch = _has_same_batch(ours, theirs)
    if has_same_batch and _BATCH in settings[0].keys() & settings[1].keys():
        settings[1][_BATCH] = settings[0][_BATCH]
    differ = differing(*settings)
    codes = [{each.code for each in summary.verdict.findings} for summary in (ours, theirs)]
    compared = RunComparison(
        a.name,
        b.name,
        "step_time" if has_same_batch else "examples_per_s",
        changes(a, b),
        parts=step_parts(ours, theirs),
        run_parts=run_parts(ours, theirs),
        settings=differ,
        equal_settings=len(settings[0].keys() | settings[1].keys()) - len(differ),
        stages=stage_pairs(ours, theirs),
        layers=layer_pairs(ours, theirs),
        operations=operation_pairs(ours, theirs),
        found=tuple(each.title for each in theirs.verdict.findings if each.code not in codes[0]),
        gone=tuple(each.title for each in ours.verdict.findings if each.code not in codes[1]),
    )
    return replace(compared, causes=causes(ours, theirs, compared))


def _has_same_batch(a: RunSummary, b: RunSummary) -> bool:
    """Whether steps are of equally many examples; True if that is unknown."""
    sizes = []
    for summary in (a, b):
        if not summary.examples_per_s or not summary.step_time_s:
            return True
        sizes.append(summary.examples_per_s * summary.step_time_s)
    return abs(sizes[1] / sizes[0] - 1) <= SAME_BATCH
