"""Two runs compared, as text for a terminal, for Markdown and for the HTML page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from keras_gpukit.records.comparison import (
    ChangeCause,
    FailCondition,
    FigureChange,
    RunComparison,
    StagePair,
    TimePair,
)
from keras_gpukit.reports import units
from keras_gpukit.reports.tables import Table, markdown_table, stage_words
from keras_gpukit.rules.comparing.compare import STAGE_FACTOR

_UNKNOWN = "unknown"
_TOO_FEW = "a run has too few windows after its warm-up (train for half a minute)"
_BOUND = "the windows of a run show its wait only as an upper bound"
_SHORT_NAME = 16
"""Longest name of a run, in characters, that titles a column as it is."""
_LEFT_OUT = "Intervals leave out a run's first fifth, with cold caches, and parts that stand out."
_AS_FACTOR = 1.2
"""Changes from this factor on are said as one, as people say them; our choice."""
_EQUAL = 0.005
"""Largest change of a speed that is said to be none; our choice."""
_LEAST = 0.0005
"""Smallest change that is not shown as 0."""
_NAMES = {
    "step_time": "step time",
    "examples_per_s": "examples/s",
    "input": "input, of the run",
    "input_stall": "input, of the steps' time",
    "peak_memory": "peak memory",
    "optimizer_slots": "optimizer slots",
    "step_memory": "activations, gradients and workspace",
    "host_memory": "host memory",
    "first_step": "first step",
    "run_time": "whole run",
    "script_time": "whole script",
    "cpu_time": "processor time, per step",
    "gpu_busy": "GPU busy",
}
_TEXTS = {
    "s": units.duration,
    "/s": units.number,
    "B": units.size,
    "share": units.percentage,
    "count": units.number,
}
_STAGE_SHARE = 0.01
"""Differences of a stage's time that are smaller than this share of a step's are left out."""


def headline(compared: RunComparison) -> tuple[str, str]:
    """Returns the severity ("good", "warning", "info" or "unknown") and which run is faster."""
    figure, a, b = compared.figure(compared.headline), compared.a, compared.b
    name = _NAMES[figure.name]
    factor = _factor(figure)
    if factor is None:
        return "unknown", f"Unknown: {name} was not measured in both runs."
    counts = " from {} and {} runs".format(*compared.runs) if compared.is_repeated else ""
    values = f"{name} {_text(figure, figure.a)} → {_text(figure, figure.b)}"
    which = f"{b} is {_speed(factor)} than {a}"
    if abs(factor - 1) < _EQUAL:
        which = f"{b} is as fast as {a}"
    if figure.low is None:
        return "unknown", f"{which}: {values}{counts}; no interval: {_TOO_FEW}."
    if not figure.has_windows:
        is_good = figure.mark == "better"
        return "good" if is_good else "warning", f"{which}: {values}{counts}, read once a run."
    found = f"{values} (95 % interval of the change {_interval(figure)}{counts})."
    if figure.mark == "no difference":
        return "info", f"No difference outside the noise: {found}"
    if figure.mark == "not distinguishable":
        return "unknown", f"Not distinguishable from noise: {found} To tell, {_more(compared)}."
    is_better = figure.mark == "better"
    if is_better != (factor > 1) or factor == 1:
        which = f"{b} is {'faster' if is_better else 'slower'} than {a} but for what is left out"
    return "good" if is_better else "warning", f"{which}: {found}"


def _factor(figure: FigureChange) -> float | None:
    """Returns the second run's speed over the first one's; None for a figure that is no speed."""
    if not (figure.a and figure.b) or figure.unit not in ("s", "/s"):
        return None
    return figure.a / figure.b if figure.unit == "s" else figure.b / figure.a


def _speed(factor: float) -> str:
    """Says a factor as people say it: "5.3× faster", "4.2 % slower"."""
    word, factor = ("slower", 1 / factor) if factor < 1 else ("faster", factor)
    if factor >= _AS_FACTOR:
        return f"{units.number(factor)}× {word}"
    return f"{units.percentage(factor - 1)} {word}"


def _more(compared: RunComparison) -> str:
    return f"repeat both runs {'more often' if compared.is_repeated else 'in turn'}"


def reasons(compared: RunComparison) -> tuple[str, ...]:
    """Returns what goes with the change, the most likely first, each in one line."""
    of_median = "apart from figures and a step's time, what follows is of each side's median run"
    return (
        *((of_median,) if compared.is_repeated else ()),
        *(_reason(cause, compared) for cause in compared.causes),
        *(f"only {compared.b} has the finding: {title}" for title in compared.found),
        *(f"only {compared.a} has the finding: {title}" for title in compared.gone),
    )


def _reason(cause: ChangeCause, compared: RunComparison) -> str:
    if cause.kind == "other processes":
        shares = [units.known(number, units.percentage) for number in _numbers(cause)]
        used = compared.figure("cpu_time")
        own = f"; a step's processor time, which they change little: {_text(used, used.a)} → "
        own = f"{own}{_text(used, used.b)}" if used.change is not None else ""
        return (
            f"other processes used {shares[0]} of the machine's cores during {compared.a} and "
            f"{shares[1]} during {compared.b}, so a change may be due to them{own}"
        )
    if cause.kind == "written stage" and None not in (cause.a, cause.b):
        return f"{cause.name} moved: {cause.a} → {cause.b}"
    if cause.kind == "written stage":
        return f"only {compared.a if cause.b is None else compared.b} has {cause.name}"
    if cause.kind in ("stage", "setting", "placement"):
        values = [str(value) if value is not None else "absent" for value in (cause.a, cause.b)]
        return f"{cause.name}: {values[0]} → {values[1]}"
    values = [units.known(number, units.duration) for number in _numbers(cause)]
    per = "batch" if cause.kind == "stage time" else "step"
    kind = f"{cause.kind} " if cause.kind in ("layer", "callback") else ""
    share = "" if cause.share is None else f", {100 * cause.share:.0f} % of the change"
    return f"{kind}{cause.name}: {values[0]} → {values[1]} per {per}{share}"


def _numbers(cause: ChangeCause) -> list[float | None]:
    return [value if isinstance(value, (int, float)) else None for value in (cause.a, cause.b)]


def tables(compared: RunComparison) -> tuple[tuple[str, Table], ...]:
    """Returns the tables with their titles; those without a row are left out."""
    operations = tuple((pair.name, pair.a or "0", pair.b or "0") for pair in compared.operations)
    found = (
        ("Figures", _figures(compared)),
        ("Settings that differ", _settings(compared)),
        ("Input pipeline, from training to the sources", _stages(compared)),
        ("A step's time", _times(compared, compared.parts, "part")),
        ("The whole run's time", _times(compared, compared.run_parts, "part")),
        (
            "Time by layer in a step, the largest differences",
            _times(compared, compared.layers, "layer"),
        ),
        ("Operations of a step", Table(("operations", *_titles(compared)), operations)),
    )
    return tuple((title, table) for title, table in found if table.rows or table.note)


def _titles(compared: RunComparison) -> tuple[str, str]:
    """Returns the runs' names as titles of columns; long ones without their equal beginning."""
    a, b = compared.a, compared.b
    if a == b or max(len(a), len(b)) <= _SHORT_NAME:
        return a, b
    ours, theirs = a.split("-"), b.split("-")
    while len(ours) > 1 and len(theirs) > 1 and ours[0] == theirs[0]:
        del ours[0], theirs[0]
    ends = "-".join(ours), "-".join(theirs)
    return (a, b) if ends == (a, b) else (f"…{ends[0]}", f"…{ends[1]}")


def _figures(compared: RunComparison) -> Table:
    rows = tuple(
        (
            _NAMES.get(figure.name, figure.name),
            _text(figure, figure.a),
            _text(figure, figure.b),
            _said(figure),
            _interval(figure) if figure.has_windows else "",
            figure.mark or "",
        )
        for figure in compared.figures
        # Of the wait for input, everything says the share of the whole run, if that is known.
        if figure.name != "input_stall" or compared.figure("input").change is None
        if figure.name == compared.headline or _text(figure, figure.a) != _text(figure, figure.b)
    )
    columns = ("figure", *_titles(compared), "change", "95 % interval", "")
    return Table(columns, rows, _LEFT_OUT if any(row[4] for row in rows) else "")


def _said(figure: FigureChange) -> str:
    """Returns the change of the whole run's figure; that of windows is the interval's."""
    factor, is_share = _factor(figure), figure.unit == "share"
    if factor is not None:
        return _speed(factor)
    if figure.a is None or figure.b is None or not (figure.a or is_share):
        return ""
    return _percent(figure, figure.b - figure.a if is_share else figure.b / figure.a - 1)


def _settings(compared: RunComparison) -> Table:
    rows = tuple((pair.name, pair.a or _UNKNOWN, pair.b or _UNKNOWN) for pair in compared.settings)
    count = compared.equal_settings
    same = f"{units.count(count, 'recorded setting')} {'is' if count == 1 else 'are'} the same."
    note = same if rows else f"No recorded setting differs; {same}"
    return Table(("setting", *_titles(compared)), rows, note)


def _stages(compared: RunComparison) -> Table:
    rows = tuple(
        (
            " → ".join(dict.fromkeys(stage.name for stage in (pair.a, pair.b) if stage)),
            stage_words(pair.a, is_bottleneck=pair.is_bottleneck[0]),
            stage_words(pair.b, is_bottleneck=pair.is_bottleneck[1]),
            ", ".join(_stage_differences(pair, compared)),
        )
        for pair in compared.stages
    )
    return Table(("stage", *_titles(compared), "differs"), rows)


def _stage_differences(pair: StagePair, compared: RunComparison) -> Iterator[str]:
    a, b = pair.a, pair.b
    if a is None or b is None:
        yield f"only in {compared.b if a is None else compared.a}"
        return
    if a.kind != b.kind:
        yield f"{a.kind} → {b.kind}"
    if a.parallelism != b.parallelism:
        yield f"parallel {a.parallelism:,} → {b.parallelism:,}"
    before_s, after_s = a.cost_per_batch_s, b.cost_per_batch_s
    if before_s and after_s:
        factor, step_s = after_s / before_s, compared.figure("step_time").b or 0.0
        is_notable = abs(after_s - before_s) >= _STAGE_SHARE * step_s
        if is_notable and not 1 / STAGE_FACTOR < factor < STAGE_FACTOR:
            yield f"{units.number(factor)}× the time"


def _times(compared: RunComparison, pairs: Sequence[TimePair], what: str) -> Table:
    rows = []
    for pair in pairs:
        times = [units.known(time_s, units.duration) for time_s in (pair.a_s, pair.b_s)]
        by, sign = pair.difference_s, "-" if pair.difference_s < 0 else "+"
        is_known = None not in (pair.a_s, pair.b_s)
        if times[0] != times[1]:
            rows.append((pair.name, *times, f"{sign}{units.duration(abs(by))}" * is_known))
    return Table((what, *_titles(compared), "difference"), tuple(rows))


def _text(figure: FigureChange, value: float | None) -> str:
    return units.known(value, _TEXTS[figure.unit])


def _interval(figure: FigureChange) -> str:
    if figure.low is None or figure.high is None:
        return ""
    return f"{100 * figure.low:+.1f} to {_percent(figure, figure.high)}"


def _percent(figure: FigureChange, change: float) -> str:
    of = "pp" if figure.unit == "share" else "%"
    shown = 0.0 if abs(change) < _LEAST else 100 * change  # and not "-0.0"
    return f"{shown:+.1f} {of}"  # pp: percentage points


def condition_line(condition: FailCondition, compared: RunComparison) -> str:
    """Returns whether a condition is met, with the figure: "failed: step_time>+10%: +14 %, …"."""
    figure = compared.figure(condition.figure)
    if condition.is_met is None:
        return f"unknown: {condition.expression}: {_unknown_because(figure, compared)}"
    state = "failed" if condition.is_met else "passed"
    advice = ""
    if condition.is_inconclusive:
        state = "inconclusive"
        advice = f"; the change may be larger than allowed: {_more(compared)}"
    interval = f" ({_interval(figure)})" if figure.has_windows else ""
    values = f"{_text(figure, figure.a)} → {_text(figure, figure.b)}"
    change = "" if figure.change is None else _percent(figure, figure.change)
    return f"{state}: {condition.expression}: {change}{interval}, {values}{advice}"


def _unknown_because(figure: FigureChange, compared: RunComparison) -> str:
    """Returns why the change of a figure is unknown."""
    pairs = ((compared.a, figure.a), (compared.b, figure.b))
    if missing := [name for name, value in pairs if value is None]:
        return f"{figure.name} is not known for {' and '.join(missing)}"
    if figure.change is None:
        return f"{figure.name} is 0 in {compared.a}"
    if figure.name in ("peak_memory", "step_memory"):
        return "no interval: on a CPU, threads decide which tensors there are at a time"
    if figure.name in ("first_step", "run_time", "script_time"):
        return (
            "no interval: other processes used the cores, or the runs have other numbers of steps"
        )
    return f"no interval: {_BOUND if figure.wait_is_bound else _TOO_FEW}"


def markdown(compared: RunComparison) -> str:
    """Returns the comparison as Markdown, such as for the summary of a CI job."""
    parts = [f"**{headline(compared)[1]}**"]
    parts += ["\n".join(f"- {reason}" for reason in reasons(compared))]
    for title, table in tables(compared):
        parts += [f"### {title}", markdown_table(table) if table.rows else "", table.note]
    parts += ["\n".join(f"- {condition_line(limit, compared)}" for limit in compared.conditions)]
    return "\n\n".join(filter(None, parts))
