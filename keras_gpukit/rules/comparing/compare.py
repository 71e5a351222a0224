"""Compares two runs figure by figure, says what goes with a change, and checks conditions on it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from keras_gpukit.records.comparison import (
    ChangeCause,
    FailCondition,
    FigureChange,
    RunComparison,
    StagePair,
    TimePair,
)
from keras_gpukit.records.report import RunReport
from keras_gpukit.records.run import RunSummary
from keras_gpukit.rules.comparing.figures import (
    FIGURES,
    OTHERS,
    changes,
    step_parts,
    used_by_others,
)
from keras_gpukit.rules.comparing.pairs import (
    differing,
    layer_pairs,
    operation_pairs,
    run_parts,
    settings_of,
    stage_pairs,
    written_pairs,
)

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
    all_ours, all_theirs = ([run.summary for run in side] for side in (a, b))
    figures = changes(all_ours, all_theirs, alternating=_alternate(a, b))
    codes = [{finding.code for finding in summary.findings} for summary in (ours, theirs)]
    compared = RunComparison(
        a[0].name,
        b[0].name,
        _headline(figures, "step_time" if has_same_batch else "examples_per_s"),
        figures,
        parts=step_parts(all_ours, all_theirs),
        run_parts=run_parts(ours, theirs),
        settings=differ,
        equal_settings=len(settings[0].keys() | settings[1].keys()) - len(differ),
        stages=stage_pairs(ours, theirs),
        layers=layer_pairs(ours, theirs),
        operations=operation_pairs(ours, theirs),
        found=tuple(finding.title for finding in theirs.findings if finding.code not in codes[0]),
        gone=tuple(finding.title for finding in ours.findings if finding.code not in codes[1]),
        runs=(len(a), len(b)),
    )
    return replace(compared, causes=causes(ours, theirs, compared))


def _headline(figures: Sequence[FigureChange], of_steps: str) -> str:
    """Returns the figure that says which run is faster: of the script if its steps do not say."""
    marks = {figure.name: figure.mark for figure in figures}
    steps_say = marks[of_steps] not in (None, "no difference")
    script_says = marks["script_time"] in ("better", "worse")
    return "script_time" if script_says and not steps_say else of_steps


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


def judge_condition(condition: FailCondition, compared: RunComparison) -> FailCondition:
    """Returns a condition with whether it is met; as it is if the figure's change is unknown.

    It is met if the change is larger than allowed, and is real: its whole interval is on that side
    of 0. Figures that never have an interval are judged by their change alone. It is inconclusive
    if the runs' windows allow both no change and one that is larger than allowed.
    """
    found, how = compared.figure(condition.figure), FIGURES[condition.figure]
    has_interval = bool(how.tag) or how.allowance is not None
    if found.change is None or (has_interval and found.low is None):
        return condition
    rises = ">" in condition.expression
    is_larger, at_one_end, at_other = (
        end is not None and (end > condition.change if rises else end < condition.change)
        for end in (found.change, found.low, found.high)
    )
    return replace(
        condition,
        is_met=is_larger and (found.low is None or found.is_real),
        is_inconclusive=found.has_windows and not found.is_real and (at_one_end or at_other),
    )


NOTABLE = 0.2
"""Least time of a part, stage, callback or layer as a share of the change of the step time."""
STAGE_FACTOR = 1.25
"""Least factor between the times of a stage; its time varies more than that of a step."""
# Both are our choice.
MOST_OF_A_KIND = 3
_INPUT, _CALLBACKS = "input wait", "callbacks between steps"
# They describe the place and the versions; a slower step rarely comes from them alone.
_LAST = ("python", "keras", "tensorflow", "keras_gpukit", "worker", "call")


def causes(a: RunSummary, b: RunSummary, compared: RunComparison) -> tuple[ChangeCause, ...]:
    """Returns what goes with the change of the step time, the most likely first.

    If the change is within the noise, only what makes the comparison doubtful.
    """
    used = [used_by_others(summary) for summary in (a, b)]
    is_shared = max(share or 0.0 for share in used) >= OTHERS
    others = (ChangeCause("other processes", "cores", *used),) if is_shared else ()
    return (*_with_change(a, b, compared), *others)


def _with_change(a: RunSummary, b: RunSummary, compared: RunComparison) -> Iterator[ChangeCause]:
    step = compared.figure("step_time")
    if (
        step.mark in ("no difference", "not distinguishable")
        or not step.change
        or step.a is None
        or step.b is None
    ):
        return
    changed_s = step.b - step.a
    parts = _notable(compared.parts, changed_s)
    for pair in parts:
        share = pair.difference_s / changed_s
        yield ChangeCause("part", pair.name, pair.a_s, pair.b_s, share)
    names = [pair.name for pair in parts]
    is_unknown = not compared.parts
    if _INPUT in names or is_unknown:
        for difference in written_pairs(a, b):
            yield ChangeCause("written stage", *difference)
        yield from _stages(compared.stages, changed_s)
    if _CALLBACKS in names or is_unknown:
        yield from _callbacks(a, b, changed_s)
    yield from _page_faults(a, b, changed_s)
    if names != [_INPUT]:
        for pair in _notable(compared.layers, changed_s)[:MOST_OF_A_KIND]:
            yield ChangeCause("layer", pair.name, pair.a_s, pair.b_s)
        for operation in compared.operations[:MOST_OF_A_KIND]:
            yield ChangeCause("placement", operation.name, operation.a, operation.b)
    settings = sorted(compared.settings, key=lambda pair: pair.name in _LAST)
    for setting in settings[: 2 * MOST_OF_A_KIND]:
        yield ChangeCause("setting", setting.name, setting.a, setting.b)


def _notable(pairs: Sequence[TimePair], changed_s: float) -> list[TimePair]:
    """Returns the times that changed the same way as the step time and account for enough of it."""
    found = [pair for pair in pairs if pair.difference_s / changed_s >= NOTABLE]
    return sorted(found, key=lambda pair: -abs(pair.difference_s))


def _stages(pairs: Sequence[StagePair], changed_s: float) -> Iterator[ChangeCause]:
    """Yields stages that ran in both pipelines, and whose parallelism or time differs."""
    timed = []
    for a, b in ((stages.a, stages.b) for stages in pairs):
        if a is None or b is None:
            continue  # it may be in both: behind a full cache it does not run
        name = f"{b.name}{b.where}"
        if a.parallelism != b.parallelism:
            counts = (f"{a.parallelism:,} parallel", f"{b.parallelism:,} parallel")
            yield ChangeCause("stage", name, *counts)
        before_s, after_s = a.cost_per_batch_s, b.cost_per_batch_s
        if before_s and after_s:
            factor = after_s / before_s if changed_s > 0 else before_s / after_s
            if factor >= STAGE_FACTOR:
                timed.append(TimePair(name, before_s, after_s))
    for pair in _notable(timed, changed_s)[:MOST_OF_A_KIND]:
        yield ChangeCause("stage time", pair.name, pair.a_s, pair.b_s)


def _callbacks(a: RunSummary, b: RunSummary, changed_s: float) -> Iterator[ChangeCause]:
    """Yields the classes of callbacks that took longer in steps, in seconds per step."""
    spent = [_between_steps(summary) for summary in (a, b)]
    if spent[0] is None or spent[1] is None:
        return
    names = dict.fromkeys((*spent[0], *spent[1]))
    pairs = [TimePair(name, spent[0].get(name, 0.0), spent[1].get(name, 0.0)) for name in names]
    for pair in _notable(pairs, changed_s):
        yield ChangeCause("callback", pair.name, pair.a_s, pair.b_s)


def _between_steps(summary: RunSummary) -> dict[str, float] | None:
    parts, steps = summary.breakdown, summary.steps
    if parts is None or not steps:
        return None
    at_epochs = parts.callbacks_at_epochs
    return {
        name: max(spent_s - at_epochs.get(name, 0.0), 0.0) / steps
        for name, spent_s in parts.by_callback.items()
    }


def _page_faults(a: RunSummary, b: RunSummary, changed_s: float) -> Iterator[ChangeCause]:
    """Yields the kernel's part of the step time if it and the page faults changed the same way."""
    faults = [summary.page_faults_per_step for summary in (a, b)]
    kernel_s = [
        ((summary.host and summary.host.kernel_fraction) or 0.0) * (summary.step_time_s or 0.0)
        for summary in (a, b)
    ]
    if faults[0] is None or faults[1] is None:
        return
    name = f"the kernel, {faults[0]:,.0f} → {faults[1]:,.0f} page faults"
    if (faults[1] - faults[0]) * changed_s > 0:
        for pair in _notable([TimePair(name, *kernel_s)], changed_s):
            yield ChangeCause("page faults", name, pair.a_s, pair.b_s)
