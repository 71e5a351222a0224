"""Conditions under which a comparison fails, such as "step_time>+10%"."""

from __future__ import annotations

import re

from keras_gpukit.records.comparison import FailCondition, RunComparison
from keras_gpukit.rules.comparing.figures import FIGURES

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
