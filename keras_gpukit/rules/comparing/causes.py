"""Differences that go with a change of the step time: its parts, stages, settings, layers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from keras_gpukit.records.comparison import ChangeCause, RunComparison, StagePair, TimePair
from keras_gpukit.records.pipeline import StageRecord
from keras_gpukit.records.run import RunSummary
from keras_gpukit.rules.comparing.figures import OTHERS, used_by_others
from keras_gpukit.rules.comparing.pairs import written_pairs

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
    is_shared = max(each or 0.0 for each in used) >= OTHERS
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
        for each in compared.operations[:MOST_OF_A_KIND]:
            yield ChangeCause("placement", each.name, each.a, each.b)
    settings = sorted(compared.settings, key=lambda pair: pair.name in _LAST)
    for each in settings[: 2 * MOST_OF_A_KIND]:
        yield ChangeCause("setting", each.name, each.a, each.b)


def _notable(pairs: Sequence[TimePair], changed_s: float) -> list[TimePair]:
    """Returns the times that changed the same way as the step time and account for enough of it."""
    found = [pair for pair in pairs if pair.difference_s / changed_s >= NOTABLE]
    return sorted(found, key=lambda pair: -abs(pair.difference_s))


def _stages(pairs: Sequence[StagePair], changed_s: float) -> Iterator[ChangeCause]:
    """Yields stages that ran in both pipelines, and whose parallelism or time differs."""
    timed = []
    for a, b in ((pair.a, pair.b) for pair in pairs):
        if a is None or b is None:
            continue  # it may be in both: behind a full cache it does not run
        if a.parallelism != b.parallelism:
            counts = (f"{a.parallelism:,} parallel", f"{b.parallelism:,} parallel")
            yield ChangeCause("stage", named(b), *counts)
        before_s, after_s = a.cost_per_batch_s, b.cost_per_batch_s
        if before_s and after_s:
            factor = after_s / before_s if changed_s > 0 else before_s / after_s
            if factor >= STAGE_FACTOR and (after_s - before_s) / changed_s >= NOTABLE:
                timed.append((abs(after_s - before_s), b, before_s, after_s))
    timed.sort(key=lambda each: -each[0])
    for _, stage, before_s, after_s in timed[:MOST_OF_A_KIND]:
        yield ChangeCause("stage time", named(stage), before_s, after_s)


def named(stage: StageRecord) -> str:
    """Returns a stage's name with its place in the code."""
    return f"{stage.name}{stage.where}"


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
