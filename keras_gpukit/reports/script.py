"""Where the time of a whole script went, in words."""

from __future__ import annotations

from typing import NamedTuple

from keras_gpukit.records.script import METHODS, ScriptRecord
from keras_gpukit.reports import units

_LEAST_SHARE = 0.005
_NAMES = {
    "fit": ("fit", "fits"),
    "evaluate": ("evaluation", "evaluations"),
    "predict": ("prediction", "predictions"),
}


class ScriptPart(NamedTuple):
    """A part of a script's wall time.

    Attributes:
        name: Name of the part, such as "14 fits".
        spent_s: Seconds of the part.
        starting_s: Seconds of it in which calls start; None if unknown, or if it is no call.
    """

    name: str
    spent_s: float
    starting_s: float | None = None


def parts_of(record: ScriptRecord) -> tuple[ScriptPart, ...]:
    """Returns the parts of a script's time in their order; together they are all of it."""
    calls = []
    for method in METHODS:
        those = [each for each in record.calls if each.method == method]
        if those:
            count = sum(each.count for each in those)
            default = (f"call of {method}", f"calls of {method}")
            name = _NAMES.get(method, default)[count != 1]
            starting = [each.starting_s for each in those if each.starting_s is not None]
            spent_s = sum(each.total_s for each in those)
            if method.endswith("_on_batch"):  # each is a step
                name += f" ({units.duration(spent_s / count)} each)"
            calls.append(
                ScriptPart(f"{count:,} {name}", spent_s, sum(starting) if starting else None)
            )
    before = "before the first call" if calls else "the script's own code"
    return (
        ScriptPart("imports", record.imports_s),
        ScriptPart(before, record.before_s),
        *calls,
        ScriptPart("the rest", record.rest_s),
    )


def account(record: ScriptRecord) -> str:
    """Returns where the time went on one line: "48 s in all: imports 9 s, 14 fits 31 s, ..."."""
    least_s, parts = _LEAST_SHARE * record.wall_s, []
    for part in parts_of(record):
        if part.spent_s > least_s:
            parts.append(f"{part.name} {units.duration(part.spent_s)}")
            if part.starting_s is not None and part.starting_s > least_s:
                parts[-1] += f" ({units.duration(part.starting_s)} of it to start)"
    return f"The script took {units.duration(record.wall_s)}: {', '.join(parts)}"
