"""Where a callback spends its time: at epochs or batches, on which line, and whether it grows."""

from __future__ import annotations

import re
from bisect import bisect_left

from keras_gpukit.records.names import STEP_TIME
from keras_gpukit.records.run import RunSummary
from keras_gpukit.records.script import LineTime
from keras_gpukit.rules.rule import seconds

MOSTLY = 0.5
FROM_KERAS = ("TensorBoard", "ModelCheckpoint")
"""Callbacks whose lines are Keras' own, of no use to users."""
_TRAINER = re.compile(r"\b(TensorFlow)?Trainer\.")  # Keras' class behind `Model`
GROWS = 2.0
"""Least ratio of the time per call in the last third of a run to that in the first. Our choice: on
a busy machine, calls of equal work differ by half."""
LEAST_THIRD_S = 1.0
"""Least seconds of sampled stacks in the last third, about seven looks; our choice."""


def is_at_epochs(summary: RunSummary, name: str) -> bool:
    """Whether a callback spends most of its time at the start and the end of epochs."""
    parts = summary.breakdown
    if parts is None or name not in parts.by_callback:
        return False
    return parts.callbacks_at_epochs.get(name, 0.0) >= MOSTLY * parts.by_callback[name]


def slowest_line(summary: RunSummary, name: str) -> LineTime | None:
    """Returns the line that takes half or more of a callback's sampled time; None if none does."""
    lines = _lines(summary, name)
    total_s = sum(each.seconds for each in lines)
    return lines[0] if lines and lines[0].seconds >= MOSTLY * total_s else None


def growth(summary: RunSummary, name: str) -> tuple[float, float] | None:
    """Returns the seconds per epoch or batch in the first and last third; None unless they grow.

    At epochs each call is timed. Between steps, stacks are sampled, and the steps of each third are
    counted from the run's time series.
    """
    parts = summary.breakdown
    if parts is None:
        return None
    if is_at_epochs(summary, name):
        thirds = parts.callbacks_by_thirds.get(name)
    else:
        thirds = _per_step(summary, name)
    return thirds if thirds and thirds[1] >= GROWS * thirds[0] > 0 else None


def line_words(line: LineTime) -> str:
    """Names a line: "train.py:31" or "train.py:31 (Model.predict)"."""
    called = _TRAINER.sub("Model.", line.called or "")
    return f"{line.place} ({called})" if called else line.place


def less_work(summary: RunSummary, name: str) -> tuple[str, ...]:
    """Returns how to let a callback work less, by when it works, and what makes it take longer."""
    unit = "epoch" if is_at_epochs(summary, name) else "batch"
    often = "fifth epoch" if unit == "epoch" else "hundredth batch"
    line = slowest_line(summary, name)
    what = f"what {line.place} does" if line else "its work"
    rarely = f"{name}: do {what} less often, for example every {often}"
    grown = growth(summary, name)
    if grown is None:
        return (rarely,)
    first_s, last_s = grown
    factor = f"{last_s / first_s:.1f}".removesuffix(".0")
    takes = f"in the last third it takes {factor}× as long for each {unit} as in the first"
    return (
        f"{name}: find what grows, such as a list that is read or written again each time: {takes} "
        f"({1e3 * first_s:,.0f} and {1e3 * last_s:,.0f} ms)",
        rarely,
    )


def named_with_line(summary: RunSummary, name: str, spent_s: float, of_s: float) -> str:
    """Returns a callback's time in a sentence, with its slowest line and whether it grows."""
    line = slowest_line(summary, name)
    unit = "epoch" if is_at_epochs(summary, name) else "batch"
    title = f"takes {seconds(spent_s)} of {seconds(of_s)} s"
    title += f", mostly at {line_words(line)}" if line else ""
    return f"{title}; longer with every {unit}" if growth(summary, name) else title


def _lines(summary: RunSummary, name: str) -> tuple[LineTime, ...]:
    of_callbacks = (
        summary.stacks.of("callback") if summary.stacks and name not in FROM_KERAS else ()
    )
    by_owner = [(each.entry.rpartition(".")[0].rpartition(".")[2], each) for each in of_callbacks]
    own = tuple(line for owner, line in by_owner if owner == name)
    # A hook may be a function, as of a `LambdaCallback`, or inherited: then no class is its owner.
    known = summary.breakdown.by_callback if summary.breakdown else {}
    return own or tuple(line for owner, line in by_owner if owner not in known)


def _per_step(summary: RunSummary, name: str) -> tuple[float, float] | None:
    lines = _lines(summary, name)
    last_s = sum(each.last_third_s for each in lines)
    if summary.stacks is None or last_s < LEAST_THIRD_S:
        return None
    first_s = sum(each.first_third_s for each in lines)
    series = next((each for each in summary.series if each.tag == STEP_TIME), None)
    if series is None or len(series.step) < 3:
        return None
    third_s = summary.stacks.watched_s / 3
    marks = [min(bisect_left(series.elapsed_s, n * third_s), len(series.step) - 1) for n in (1, 2)]
    early = series.step[marks[0]] - series.step[0]
    late = series.step[-1] - series.step[marks[1]]
    return (first_s / early, last_s / late) if early > 0 and late > 0 else None
