"""Compares two runs figure by figure, and checks conditions on what changed."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from keras_gpukit.records.comparison import FailCondition, RunComparison
from keras_gpukit.records.report import RunReport
from keras_gpukit.records.run import RunSummary
from keras_gpukit.rules.comparing.causes import causes
from keras_gpukit.rules.comparing.figures import FIGURES, changes, step_parts
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


def compare_runs(a: Sequence[RunReport], b: Sequence[RunReport]) -> RunComparison:
    """Compares a run with an earlier one, or one with a change, by what both recorded.

    Each may be repeated. Figures are then means over the runs of a side, and their intervals are
    from what those differ by; everything else is of the run with the median step time.

    Args:
        a: Run that is compared with, such as that of the main branch, or its repeats.
        b: Run that may be slower or faster, or its repeats.

    Raises:
        ValueError: If the repeats of a side differ in a setting.
    """
    for side in (a, b):
        _check_repeats(side)
    a, b = sorted(a, key=_began_s), sorted(b, key=_began_s)
    middle = _median_run(a), _median_run(b)
    ours, theirs = (run.summary for run in middle)
    settings = settings_of(middle[0]), settings_of(middle[1])
    has_same_batch = _has_same_batch(ours, theirs)
    if has_same_batch and _BATCH in settings[0].keys() & settings[1].keys():
        settings[1][_BATCH] = settings[0][_BATCH]
    differ = differing(*settings)
    codes = [{each.code for each in summary.verdict.findings} for summary in (ours, theirs)]
    all_ours, all_theirs = ([each.summary for each in side] for side in (a, b))
    compared = RunComparison(
        a[0].name,
        b[0].name,
        "step_time" if has_same_batch else "examples_per_s",
        changes(all_ours, all_theirs, alternating=_alternate(a, b)),
        parts=step_parts(all_ours, all_theirs),
        run_parts=run_parts(ours, theirs),
        settings=differ,
        equal_settings=len(settings[0].keys() | settings[1].keys()) - len(differ),
        stages=stage_pairs(ours, theirs),
        layers=layer_pairs(ours, theirs),
        operations=operation_pairs(ours, theirs),
        found=tuple(each.title for each in theirs.verdict.findings if each.code not in codes[0]),
        gone=tuple(each.title for each in ours.verdict.findings if each.code not in codes[1]),
        runs=(len(a), len(b)),
    )
    return replace(compared, causes=causes(ours, theirs, compared))


def _check_repeats(runs: Sequence[RunReport]) -> None:
    """Raises a ValueError if runs differ in a setting other than the computed batch size."""
    first, *others = [{**settings_of(run), _BATCH: ""} for run in runs]
    for run, settings in zip(runs[1:], others, strict=True):
        if differ := differing(first, settings):
            raise ValueError(
                f"Runs are not repeats of one: {differ[0].name} is {differ[0].a or 'unknown'} in "
                f"{runs[0].name} and {differ[0].b or 'unknown'} in {run.name}"
            )


def _alternate(a: Sequence[RunReport], b: Sequence[RunReport]) -> bool:
    """Whether there are as many runs on both sides, and each pair began before the next one."""
    began = sorted((_began_s(run), side) for side, runs in enumerate((a, b)) for run in runs)
    pairs = list(zip(began[::2], began[1::2], strict=False))
    return len(a) == len(b) > 1 and all(one[1] != two[1] for one, two in pairs)


def _began_s(run: RunReport) -> float:
    return run.began_s or 0.0


def _median_run(runs: Sequence[RunReport]) -> RunReport:
    return sorted(runs, key=lambda run: run.summary.step_time_s or 0.0)[len(runs) // 2]


def _has_same_batch(a: RunSummary, b: RunSummary) -> bool:
    """Whether steps are of equally many examples; True if that is unknown."""
    sizes = []
    for summary in (a, b):
        if not summary.examples_per_s or not summary.step_time_s:
            return True
        sizes.append(summary.examples_per_s * summary.step_time_s)
    return abs(sizes[1] / sizes[0] - 1) <= SAME_BATCH


_CONDITION = re.compile(
    r"\s*(?P<figure>\w+)\s*(?P<way>[<>])\s*(?P<sign>[+-]?)\s*(?P<percent>\d+(\.\d+)?)\s*%\s*"
)
_EXAMPLE = 'such as "step_time>+10%" or "examples_per_s<-5%"'


def parse_condition(text: str) -> FailCondition:
    """Returns a condition from its expression.

    Raises:
        ValueError: If it is no condition; the message lists the figures and the form.
    """
    found, known = _CONDITION.fullmatch(text), f"figures are {', '.join(FIGURES)}"
    if found is None or found["sign"] == {">": "-", "<": "+"}[found["way"]]:
        raise ValueError(
            "a condition is FIGURE>+N% for a rise of more than N percent or FIGURE<-N% for a "
            f"fall, {_EXAMPLE}; {known}. Received: {text!r}"
        )
    if found["figure"] not in FIGURES:
        raise ValueError(f"there is no figure {found['figure']!r}; {known}. Received: {text!r}")
    fraction = float(found["percent"]) / 100
    return FailCondition(text, found["figure"], fraction if found["way"] == ">" else -fraction)


def judge_condition(condition: FailCondition, compared: RunComparison) -> bool | None:
    """Returns whether a condition is met; None if the figure's change is unknown.

    It is met if the change is larger than allowed, and is real: its whole interval is on that side
    of 0. Figures that never have an interval are judged by their change alone.
    """
    found, how = compared.figure(condition.figure), FIGURES[condition.figure]
    has_interval = bool(how.tag) or how.allowance is not None
    if found.change is None or (has_interval and found.low is None):
        return None
    return _is_beyond(condition, found.change) and (found.low is None or found.is_real)


def is_inconclusive(condition: FailCondition, compared: RunComparison) -> bool:
    """Whether the runs' windows allow both no change and one that is larger than allowed."""
    found = compared.figure(condition.figure)
    if not found.has_windows or found.is_real or found.low is None or found.high is None:
        return False
    return any(_is_beyond(condition, end) for end in (found.low, found.high))


def _is_beyond(condition: FailCondition, change: float) -> bool:
    rises = condition.expression.count(">") > 0
    return change > condition.change if rises else change < condition.change
