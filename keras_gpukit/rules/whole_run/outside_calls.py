"""Whether a script spends its time outside `fit` and the like, and on which line."""

from __future__ import annotations

import re
from collections.abc import Sequence

from keras_gpukit.records.finding import Finding, Saving
from keras_gpukit.records.script import LineTime, ScriptRecord
from keras_gpukit.rules.rule import Measure, ScriptRule, Share, seconds
from keras_gpukit.rules.savings import CRITICAL_FRACTION, WARNING_FRACTION

LEAST_S = 3.0
"""Shortest time that is worth a finding: loading a small data set takes as long. Our choice."""
MOST_SOURCE = 50
"""Characters of a line that the title shows; our choice."""
STEP = "Function.__call__"
"""A `tf.function`, which is a step of the script's own rather than time outside of steps."""
ADVICE: tuple[tuple[str, tuple[str, ...]], ...] = (
    (
        r"\.adapt\b",
        (
            "give `adapt` batches: `adapt(ds.batch(256))`. Of a dataset that is not batched, it "
            "takes the examples one by one, each in eager operations",
            "adapt once and save the vocabulary or the statistics with the model",
        ),
    ),
    (
        r"OwnedIterator|NumpyIterator|as_numpy_iterator",
        (
            "each element of the dataset takes Python and an eager call here: iterate over "
            "`ds.batch(1024)`, or compute the result within the pipeline (`ds.reduce`)",
        ),
    ),
    (
        r"get_file|tfds\.load|download|urlopen|urlretrieve|requests\.|from_pretrained|snapshot",
        ("keep what was downloaded on a local disk that outlives the job, and read it from there",),
    ),
    (
        r"glob|listdir|scandir|imread|Image\.|load_img|read_csv|np\.load|loadtxt|\bopen\(|read\(",
        (
            "read files in parallel within the pipeline, `ds.map(load, "
            "num_parallel_calls=tf.data.AUTOTUNE)`, while training runs",
            "or convert them once into few large files (TFRecord, NumPy, Parquet)",
        ),
    ),
)
WAITS = ("the line waits and does not compute: wait for several things in parallel",)
UNKNOWN = (
    "if the result is the same each time, compute it once: before the loop that the line is in, or "
    "saved for later runs, as with `np.save`",
)


class TimeOutsideCalls(ScriptRule):
    """Much of a script's time passes before, between or after its calls, mostly on one line."""

    code = "outside-calls"
    title = "Much of the script's time passed outside fit"
    requires = "the lines of a whole script, as `keras-gpukit run` samples them"
    time_on_the_line = Measure("The line takes {value}", "s")
    of_the_script = Share(", {value} of the script")

    def judge_script(self, script: ScriptRecord) -> Finding | None:
        parts = [
            (each, _longest([line for line in each if line.called != STEP]))
            for each in (script.before, script.rest)
        ]
        lines, (line, spent_s) = max(parts, key=lambda each: each[1][1])
        share = spent_s / max(script.wall_s, spent_s) if spent_s else 0.0
        if line is None or spent_s < LEAST_S or share < WARNING_FRACTION:
            return None
        return self.find(
            "critical" if share >= CRITICAL_FRACTION else "warning",
            self.time_on_the_line(spent_s),
            self.of_the_script(share),
            advice=_advice(line),
            saving=Saving(0.0, spent_s, script.wall_s, f"time in {line.place}", upper_bound=True),
            title=f"{seconds(spent_s)} of {seconds(script.wall_s)} s passed "
            f"{_when(script, lines)}in {_named(line, spent_s)}",
        )


def _longest(lines: Sequence[LineTime]) -> tuple[LineTime | None, float]:
    """Returns the longest line and its seconds, or those of its function if that has more lines."""
    if not lines:
        return None, 0.0
    by_function: dict[tuple[str, str], float] = {}
    for line in lines:
        key = line.place.rpartition(":")[0], line.function
        by_function[key] = by_function.get(key, 0.0) + line.seconds
    key = max(by_function, key=lambda each: by_function[each])
    inside = [each for each in lines if (each.place.rpartition(":")[0], each.function) == key]
    longest = max(lines, key=lambda each: each.seconds)
    # A module is no function that one could look into: its lines stand for themselves.
    if key[1] == "<module>" or longest.seconds > by_function[key] / 2:
        return longest, longest.seconds
    return max(inside, key=lambda each: each.seconds), by_function[key]


def _when(script: ScriptRecord, lines: Sequence[LineTime]) -> str:
    methods = list(dict.fromkeys(each.method for each in script.calls))
    name = methods[0] if len(methods) == 1 else "fit" if "fit" in methods else "the calls"
    if not methods:
        return ""
    return f"before {name}, " if lines is script.before else f"outside {name}, "


def _named(line: LineTime, spent_s: float) -> str:
    if spent_s > line.seconds:  # of a function with several such lines
        return f"{line.function}, most of it on the line {line.place}"
    # A look at plain Python comes at the end of a loop's turn, so such a line proves nothing.
    is_proof = "(" in line.source or line.function == "<module>"
    shows = is_proof and 0 < len(line.source) <= MOST_SOURCE
    return f"{line.source if shows else line.called or line.function} ({line.place})"


def _advice(line: LineTime) -> tuple[str, ...]:
    text = f"{line.called or ''} {line.source}"
    known = next((advice for pattern, advice in ADVICE if re.search(pattern, text)), None)
    return known or (WAITS if line.mostly_waits else UNKNOWN)
