"""Whether something other than steps takes much of a run's time."""

from __future__ import annotations

import re
from abc import abstractmethod
from bisect import bisect_left
from dataclasses import replace
from typing import ClassVar

from keras_gpukit.records.names import STEP_TIME
from keras_gpukit.records.run import RunSummary
from keras_gpukit.records.script import LineTime, seconds_at_places
from keras_gpukit.records.steps import OWN_WORK, TimeBreakdown
from keras_gpukit.rules.rule import Measure, Outcome, Rule, Share, seconds, too_short
from keras_gpukit.rules.savings import of_callbacks, severity
from keras_gpukit.rules.whole_run.shifts import series_of

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
    at_places = seconds_at_places(lines)
    total_s = sum(at_places.values())
    place = max(at_places, key=at_places.__getitem__, default=None)
    if place is None or at_places[place] < MOSTLY * total_s:
        return None
    longest = next(line for line in lines if line.place == place)
    # Otherwise it calls several functions, none of which takes most of the time.
    is_one = longest.seconds >= MOSTLY * total_s
    return longest if is_one else replace(longest, called=None, seconds=at_places[place])


def growth(summary: RunSummary, name: str) -> tuple[float, float] | None:
    """Returns the seconds per epoch or batch in the first and last third; None unless they grow.

    At epochs each call is timed. Between steps, stacks are sampled, and the steps of each third are
    counted from the run's time series.
    """
    parts = summary.breakdown
    if parts is None:
        return None
    at_epochs = parts.callbacks_by_thirds.get(name)
    thirds = at_epochs if is_at_epochs(summary, name) else _per_step(summary, name)
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
    by_owner = [(line.entry.rpartition(".")[0].rpartition(".")[2], line) for line in of_callbacks]
    own = tuple(line for owner, line in by_owner if owner == name)
    # A hook may be a function, as of a `LambdaCallback`, or inherited: then no class is its owner.
    known = summary.breakdown.by_callback if summary.breakdown else {}
    return own or tuple(line for owner, line in by_owner if owner not in known)


def _per_step(summary: RunSummary, name: str) -> tuple[float, float] | None:
    lines = _lines(summary, name)
    last_s = sum(line.last_third_s for line in lines)
    if summary.stacks is None or last_s < LEAST_THIRD_S:
        return None
    first_s = sum(line.first_third_s for line in lines)
    series = series_of(summary, STEP_TIME)
    if series is None or len(series.step) < 3:
        return None
    third_s = summary.stacks.watched_s / 3
    marks = [min(bisect_left(series.elapsed_s, n * third_s), len(series.step) - 1) for n in (1, 2)]
    early = series.step[marks[0]] - series.step[0]
    late = series.step[-1] - series.step[marks[1]]
    return (first_s / early, last_s / late) if early > 0 and late > 0 else None


TENSORBOARD = "TensorBoard"
TENSORBOARD_DEFAULTS = {
    "histogram_freq": 0,
    "write_images": False,
    "embeddings_freq": 0,
    "update_freq": "epoch",
    "profile_batch": 0,
}
"""Arguments of Keras' callback that take time, at epochs' ends or between steps, and defaults."""
_BETWEEN_STEPS = ("update_freq", "profile_batch")
CHECKPOINT = "ModelCheckpoint"
SAVE_FREQ = f"{CHECKPOINT}.save_freq"
"""Key of the number of batches after which it saves, in `Environment.settings`."""
_NOTABLE = 0.1
_CHECKPOINT = f"`keras.callbacks.{CHECKPOINT}`: save less often, or only the weights"
_AT_EPOCHS = f"`{CHECKPOINT}(save_freq='epoch')`: {{given}} counts batches, not epochs"
_DEFAULT = "`keras.callbacks.TensorBoard`: a log_dir on a local disk, and `write_graph=False`"
_MONITOR = "Train without `Monitor`, and report this: it should not take so long"
_OWN = "in your own callbacks, do work every hundredth batch, not in each"


def callback_advice(summary: RunSummary, name: str | None) -> tuple[str, ...]:
    """Returns what to change, the most rewarding change first."""
    given = summary.environment.settings.get(SAVE_FREQ)
    known = {
        TENSORBOARD: (_tensorboard_advice(summary),),
        CHECKPOINT: ((_AT_EPOCHS.format(given=given),) if given else ()) + (_CHECKPOINT,),
    }
    if name == OWN_WORK:
        return (_MONITOR,)
    if name is None:
        by_callback = summary.breakdown.by_callback if summary.breakdown else {}
        seen = [line for callback in known if callback in by_callback for line in known[callback]]
        return (*seen, _OWN)
    return known.get(name, less_work(summary, name))


def as_written(summary: RunSummary, name: str) -> str:
    """Returns a callback's hook or name; that of Keras' own with the arguments that take time."""
    line = slowest_line(summary, name)
    if line and name in (hook := line.entry.split(".")[-2:]):
        return ".".join(hook)
    if name == CHECKPOINT and (given := summary.environment.settings.get(SAVE_FREQ)):
        return f"{name}({given})"
    if name != TENSORBOARD or not (costs_s := tensorboard_costs_s(summary)):
        return name
    written = (summary.environment.settings[f"{name}.{argument}"] for argument in costs_s)
    return f"{name}({', '.join(written)})"


def tensorboard_costs_s(summary: RunSummary) -> dict[str, float]:
    """Returns the arguments that take a tenth of its time or more, the costliest moment first.

    Arguments that work at the same moment share its seconds.
    """
    parts = summary.breakdown
    spent_s = parts.by_callback.get(TENSORBOARD, 0.0) if parts else 0.0
    at_epochs_s = parts.callbacks_at_epochs.get(TENSORBOARD, 0.0) if parts else 0.0
    costs_s = {
        argument: spent_s - at_epochs_s if argument in _BETWEEN_STEPS else at_epochs_s
        for argument in TENSORBOARD_DEFAULTS
        if f"{TENSORBOARD}.{argument}" in summary.environment.settings
    }
    costly = (item for item in costs_s.items() if item[1] >= _NOTABLE * spent_s)
    return dict(sorted(costly, key=lambda item: -item[1]))


def _tensorboard_advice(summary: RunSummary) -> str:
    costs_s = tensorboard_costs_s(summary)
    if not costs_s:
        return _DEFAULT
    less = ", ".join(f"{argument}={TENSORBOARD_DEFAULTS[argument]!r}" for argument in costs_s)
    moments = {
        "between steps" if argument in _BETWEEN_STEPS else "at epochs' ends": spent_s
        for argument, spent_s in costs_s.items()
    }
    took = ", ".join(f"{seconds(spent_s)} s {moment}" for moment, spent_s in moments.items())
    return f"`{TENSORBOARD}({less})`, or less often: it took {took}"


MINIMUM_WALL_S = 5.0
NOTABLE_FRACTION = 0.10
# Upper bound of the time that Keras' own loop takes between two steps.
LOOP_S = 0.25e-3

ALWAYS_THERE = {"History", "ProgbarLogger", "Monitor", "Profiler", OWN_WORK}
"""Callbacks that Keras or this package adds: a run with only these has none of the user's own."""

LESS_TIME = too_short(f"it took less than {MINIMUM_WALL_S:g} s")


class TimeRule(Rule):
    """A rule on where a run's time went. It skips short runs, which mostly consist of start-up."""

    requires = f"a run of at least {MINIMUM_WALL_S:g} s whose time was broken down"
    charts: ClassVar[tuple[str, ...]] = ("wall-time", "timeline")

    def judge(self, summary: RunSummary) -> Outcome:
        parts = summary.breakdown
        if parts is None:
            return self.abstain()
        if parts.wall_s < MINIMUM_WALL_S:
            return self.abstain(LESS_TIME)
        return self.judge_parts(summary, parts)

    @abstractmethod
    def judge_parts(self, summary: RunSummary, parts: TimeBreakdown) -> Outcome:
        """Judges the parts of a run that is long enough."""


class SlowCallbacks(TimeRule):
    """The share of the time that goes to callbacks, including checkpoints."""

    code = "slow-callbacks"
    title = "Callbacks slow training down"
    supersedes = ("low-compute-share: callbacks",)
    of_the_time = Share("This takes {value} of the run's time")
    in_callbacks = Measure(", {value} in callbacks", "s")
    time_in = Measure("{of} takes {value} of it", "s")

    def judge_parts(self, summary: RunSummary, parts: TimeBreakdown) -> Outcome:
        executions = _executions(summary)
        if executions is None:
            return self.abstain()
        spent_s = parts.callbacks_s - LOOP_S * executions
        share = spent_s / parts.wall_s
        # `TracingAgain` names functions that are traced again and again in callbacks.
        traced_s = sum(function.again_s for function in parts.retraced or ())
        if share < NOTABLE_FRACTION or traced_s >= MOSTLY * spent_s:
            return None
        saving = all_of_them = of_callbacks(summary, spent_s, parts.callbacks_s)
        name, longest_s = next(iter(parts.by_callback.items()), ("", 0.0))
        is_named = longest_s >= MOSTLY * spent_s
        if not is_named and name and parts.by_callback.keys() <= ALWAYS_THERE:
            return None  # the time between steps went to Keras' loop, or to waiting for a core
        figures = [self.of_the_time(share), self.in_callbacks(spent_s)]
        title = None
        if is_named:
            # Its time comes from samples, and may exceed the time left without Keras' loop.
            longest_s = min(longest_s, spent_s)
            figures.append(self.time_in(longest_s, name))
            saving = of_callbacks(summary, longest_s, parts.callbacks_s)
            took = named_with_line(summary, name, longest_s, parts.wall_s)
            title = f"{as_written(summary, name)} {took}"
        return self.find(
            severity(all_of_them, summary),
            *figures,
            advice=callback_advice(summary, name if is_named else None),
            saving=saving,
            title=title,
            about=name if is_named else "",
        )


def _executions(summary: RunSummary) -> float | None:
    """Returns how many times Keras' loop called the step function; None if unknown."""
    if summary.throughput is not None and summary.throughput.executions is not None:
        return summary.throughput.executions
    if summary.steps is None:
        return None
    return summary.steps / (summary.environment.steps_per_execution or 1)
