"""The figures by which two runs are compared, and the change of each."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from statistics import fmean
from typing import NamedTuple

from keras_gpukit.records.comparison import FigureChange, FigureUnit, Mark, TimePair
from keras_gpukit.records.machine import mean_busy_percent
from keras_gpukit.records.names import (
    BETWEEN_STEPS,
    EXAMPLE_RATE,
    INPUT_STALL,
    INPUT_WAIT,
    STEP_TIME,
)
from keras_gpukit.records.run import RunSummary
from keras_gpukit.rules.comparing.intervals import (
    PARTS,
    Estimate,
    after_warm_up,
    difference,
    estimate,
    mean,
    over_runs,
    relative_change,
)
from keras_gpukit.rules.savings import FULL_PERCENT, input_of_run
from keras_gpukit.rules.whole_run.shifts import series_of


class Compared(NamedTuple):
    """How a figure is compared.

    Attributes:
        is_better: Whether more of it is better; None if it is neither.
        tag: Tag of its series; "" if it is read once a run.
        factor: Unit of a share or time as a multiple of the series' unit; ratios need none.
        allowance: Allowed change of a figure that is read once a run, as a share; our choice. None
            if it is only shown.
    """

    unit: FigureUnit
    is_better: bool | None = None
    tag: str = ""
    factor: float = 1.0
    allowance: float | None = None


FIGURES = {
    "step_time": Compared("s", False, STEP_TIME),
    "examples_per_s": Compared("/s", True, EXAMPLE_RATE),
    "input": Compared("share"),
    "input_stall": Compared("share", False, INPUT_STALL, 1e-2),
    "peak_memory": Compared("B", False, allowance=0.02),
    "weights": Compared("B", allowance=0.0),
    "optimizer_slots": Compared("B", allowance=0.0),
    "step_memory": Compared("B", False, allowance=0.02),
    "host_memory": Compared("B", False, allowance=0.15),
    "first_step": Compared("s", False, allowance=0.5),
    "run_time": Compared("s", False, allowance=0.2),
    "script_time": Compared("s", False, allowance=0.2),
    "cpu_time": Compared("s"),
    "gpu_busy": Compared("share"),
    "steps": Compared("count"),
}
"""Figures by name, as `--fail-on` names them."""
EQUAL = 0.1
"""Interval around 0 within which runs are called equal, as a share of the figure; our choice."""
OTHERS = 0.15
"""Share of the machine's cores, used by other processes, from which a comparison is doubtful; our
choice."""
CPU_TIME_VARIES = 0.1
"""Most by which others' load changes the processor time of the same steps; our choice. It changed
by 2 % where other processes made two scripts take 1.5 and 1.3 times as long."""
MOST_TAKEN = 0.99  # what is left has a finite logarithm
Runs = Sequence[RunSummary]
"""One run, or repeated runs of the same script."""


def changes(a: Runs, b: Runs, *, alternating: bool = False) -> tuple[FigureChange, ...]:
    """Returns all figures with their changes."""
    values = [[_values(run) for run in runs] for runs in (a, b)]
    is_shared = max(used_by_others(run) or 0.0 for run in (*a, *b)) >= OTHERS
    step_counts = {figures["steps"] for side in values for figures in side}
    fullest = [run.memory.fullest for run in (*a, *b) if run.memory]
    on_cpu = any(memory is not None and memory.device.startswith("CPU") for memory in fullest)
    found = []
    for name, how in FIGURES.items():
        has_other_steps = name in ("run_time", "script_time") and len(step_counts) > 1
        if has_other_steps or (is_shared and name in ("first_step", "run_time", "script_time")):
            how = Compared(how.unit)
        if name in ("peak_memory", "step_memory") and on_cpu:
            how = Compared(how.unit)  # threads of a CPU decide which tensors there are at a time
        read_a, read_b = (_mean([figures[name] for figures in side]) for side in values)
        over = [
            [known for run in runs if (known := _estimate(run, how, len(runs)))] for runs in (a, b)
        ]
        is_known = len(over[0]) == len(a) and len(over[1]) == len(b)
        change = _change(name, how, read_a, read_b, over if is_known else None, alternating)
        if is_shared and how.tag in (STEP_TIME, EXAMPLE_RATE):
            change = _marked(_as_processors_say(change, how, values), how)
        if how.tag == INPUT_STALL:
            is_bound = not all(map(_wait_is_known, (*a, *b)))
            change = replace(change, wait_is_bound=is_bound)
            if not _follows_wait(change, a, b):
                change = replace(change, mark=None)
        found.append(change)
    return tuple(found)


def _as_processors_say(
    change: FigureChange, how: Compared, values: Sequence[Sequence[dict[str, float | None]]]
) -> FigureChange:
    """Widens an interval to the change of the run's processor time, if others used the cores.

    What others take makes steps longer, by more than their share where threads wait for each other,
    but not their processor time.
    """
    used = [_mean([figures["cpu_time"] for figures in side]) for side in values]
    if change.low is None or change.high is None or not used[0] or not used[1]:
        return change
    ratio = used[0] / used[1] if how.is_better else used[1] / used[0]
    return replace(
        change,
        low=min(change.low, ratio / (1 + CPU_TIME_VARIES) - 1),
        high=max(change.high, ratio * (1 + CPU_TIME_VARIES) - 1),
    )


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return fmean(known) if len(known) == len(values) else None


def _follows_wait(stall: FigureChange, a: Runs, b: Runs) -> bool:
    """Whether the wait explains half of its share's change: a slower model lowers the share too."""
    waits = [_mean_over_windows(runs, INPUT_WAIT) for runs in (a, b)]
    step_s = _mean_over_windows(a, STEP_TIME)
    if not (stall.change and step_s) or waits[0] is None or waits[1] is None:
        return False
    return (waits[1] - waits[0]) / step_s / stall.change >= 0.5


def _change(
    name: str,
    how: Compared,
    a: float | None,
    b: float | None,
    over: Sequence[Sequence[Estimate]] | None,
    alternating: bool,
) -> FigureChange:
    if a is None or b is None:
        return FigureChange(name, how.unit, a, b)
    if over is not None:
        compare = difference if how.unit == "share" else relative_change
        changed, low, high = compare(*over, alternating=alternating)
        if how.unit == "share":  # which stays within 0 and 1, whatever the interval says
            share = over_runs(over[0]).mean
            low, high = max(low, -share), min(high, 1 - share)
        return _marked(FigureChange(name, how.unit, a, b, changed, low, high, True), how)
    if how.unit == "share":
        return FigureChange(name, how.unit, a, b, b - a)
    if a <= 0:
        return FigureChange(name, how.unit, a, b)
    ratio = b / a - 1
    change = FigureChange(name, how.unit, a, b, ratio)
    if how.allowance is None:
        return change
    low, high = ratio - how.allowance, ratio + how.allowance
    return _marked(FigureChange(name, how.unit, a, b, ratio, low, high), how)


def _marked(change: FigureChange, how: Compared) -> FigureChange:
    if how.is_better is None or change.change is None or change.low is None:
        return change
    mark: Mark = "no difference"
    if change.is_real:
        mark = "better" if (change.change > 0) == how.is_better else "worse"
    elif change.has_windows and max(-(change.low or 0.0), change.high or 0.0) > EQUAL:
        mark = "not distinguishable"
    return replace(change, mark=mark)


def _values(summary: RunSummary) -> dict[str, float | None]:
    """Returns the figures of a run as its summary has them."""
    parts, host, memory = summary.breakdown, summary.host, summary.memory
    fullest = memory.fullest if memory else None
    wall_s = summary.throughput.wall_s if summary.throughput else None
    script = summary.script
    busy = mean_busy_percent(summary.gpus)
    return {
        "step_time": summary.step_time_s,
        "examples_per_s": summary.examples_per_s,
        "input": input_of_run(summary),
        "input_stall": summary.input_stall_fraction,
        "peak_memory": fullest.needed_bytes if fullest else None,
        "weights": memory.weights_bytes if memory else None,
        "optimizer_slots": memory.slots_bytes if memory else None,
        "step_memory": memory.steps_bytes(fullest) if memory and fullest else None,
        "host_memory": host.memory_max_bytes if host else None,
        "first_step": parts.first_step_s if parts else None,
        "run_time": wall_s,
        "script_time": script.wall_s if script else None,
        "cpu_time": _processor_time_s(summary),
        "gpu_busy": None if busy is None else busy / 100,
        "steps": summary.steps,
    }


def _processor_time_s(summary: RunSummary) -> float | None:
    """Returns the processor time of this process per step, without that of its children."""
    host, step_s = summary.host, summary.step_time_s
    if host is None or host.user_cores is None or host.kernel_cores is None or step_s is None:
        return None
    return (host.user_cores + host.kernel_cores) * step_s


def _mean_over_windows(runs: Runs, tag: str) -> float | None:
    """Returns a time per step over runs' windows after the warm-up; None if one's are too few."""
    found = [_windows(run, Compared("s", tag=tag, factor=1e-3), len(runs)) for run in runs]
    return _mean([None if windows is None else mean(*windows) for windows in found])


def _windows(
    summary: RunSummary, how: Compared, runs: int
) -> tuple[Sequence[float], Sequence[float]] | None:
    """Returns a figure in each window after the warm-up, and the windows' weights."""
    series = series_of(summary, how.tag)
    if series is None or (how.tag in (INPUT_STALL, INPUT_WAIT) and not _wait_is_known(summary)):
        return None
    weights = series.weight
    if how.unit in ("share", "/s"):  # of time, not of steps
        steps_ms = series_of(summary, STEP_TIME)
        means_ms = dict(zip(steps_ms.step, steps_ms.mean, strict=True)) if steps_ms else {}
        weights = tuple(
            weight * means_ms.get(step, 0.0)
            for step, weight in zip(series.step, series.weight, strict=True)
        )
    # How much a run varies is only needed of a single one.
    least = 1 if runs > 1 else PARTS
    return after_warm_up([how.factor * value for value in series.mean], weights, least)


def _estimate(summary: RunSummary, how: Compared, runs: int) -> Estimate | None:
    windows, taken = _windows(summary, how, runs), _taken_by_others(summary)
    found = windows and estimate(*windows, of_ratio=how.unit != "share")
    if not found:
        return None
    if how.unit == "share":
        return found._replace(lower=taken, higher=taken)
    # With all cores, the run is at most so much faster: its times fall, and its rates rise.
    faster = -math.log1p(-min(taken, MOST_TAKEN))
    return found._replace(higher=faster) if how.is_better else found._replace(lower=faster)


def _taken_by_others(summary: RunSummary) -> float:
    """Returns the share of the cores that others took from a run; 0 if cores were left."""
    used, host = used_by_others(summary), summary.host
    is_full = host is not None and (host.cpu_percent or 0.0) >= FULL_PERCENT
    return used if is_full and used is not None and used >= OTHERS else 0.0


def _wait_is_known(summary: RunSummary) -> bool:
    """Whether the windows show the wait: not only an upper bound, and refuted by no profile."""
    record = summary.input
    if record is None or record.confidence == "upper bound":
        return False
    return record.live_stall_fraction is None


def step_parts(a: Runs, b: Runs) -> tuple[TimePair, ...]:
    """Returns the parts of the mean step time in both runs; empty if a wait is unknown."""
    tags = {"input wait": INPUT_WAIT, "callbacks between steps": BETWEEN_STEPS, "": STEP_TIME}
    means: list[dict[str, float]] = []
    for runs in (a, b):
        found = {name: _mean_over_windows(runs, tag) for name, tag in tags.items()}
        known = {name: mean_s for name, mean_s in found.items() if mean_s is not None}
        if len(known) < len(found):
            return ()
        rest_s = known.pop("") - sum(known.values())
        means.append({**known, "compute": max(rest_s, 0.0)})
    return tuple(TimePair(name, means[0][name], means[1][name]) for name in means[0])


def used_by_others(summary: RunSummary) -> float | None:
    """Returns the share of the machine's cores that processes outside the job used."""
    percent = summary.host.others_cpu_percent if summary.host else None
    return None if percent is None else percent / 100
