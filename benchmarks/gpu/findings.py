"""What a summary concludes, as JSON, and what a promised saving is held against."""

from __future__ import annotations

from typing import Any

from benchmarks.gpu.part import Outcome

SLACK = 0.03
"""Of the wall time, by which a saving may lie outside its range: runs differ by about that."""


def findings_of(summary: Any) -> list[dict[str, Any]]:
    """Returns the code and the saving of each finding, the worst first."""
    return [
        {
            "code": finding.code,
            "low_s": finding.saving and finding.saving.low_s,
            "high_s": finding.saving and finding.saving.high_s,
            "of_s": finding.saving and finding.saving.of_s,
        }
        for finding in summary.findings
    ]


def in_percent(share: float | None) -> str:
    """Returns a share, 0 to 1, in words."""
    return "unknown" if share is None else f"{100 * share:.1f} %"


def promised(findings: list[dict[str, Any]], code: str) -> dict[str, Any] | None:
    """Returns the finding of a code if it promises a saving."""
    named = (each for each in findings if each["code"] == code and each["low_s"] is not None)
    return next(named, None)


def is_kept(promise: dict[str, Any], saved_s: float) -> bool | None:
    """Whether what a change saved lies in the promised range; None if runs differ by more."""
    slack_s = SLACK * promise["of_s"]
    high_s = promise["of_s"] if promise["high_s"] is None else promise["high_s"]
    if high_s <= slack_s:
        return None
    return bool(promise["low_s"] - slack_s <= saved_s <= high_s + slack_s)


def judge_promise(promise: dict[str, Any] | None, saved_s: float, evidence: str) -> Outcome:
    """Returns whether a promised saving is kept, with the evidence in words."""
    if promise is None:
        return Outcome(None, f"{evidence} Nothing was promised.")
    kept = is_kept(promise, saved_s)
    small = "" if kept is not None else f", less than two runs differ by (about {100 * SLACK:g} %)"
    return Outcome(kept, f"{evidence} Promised: {range_of(promise)}{small}.")


def range_of(promise: dict[str, Any]) -> str:
    """Returns the promised range in words."""
    high = "an unknown time" if promise["high_s"] is None else f"{promise['high_s']:.2f} s"
    return f"{promise['low_s']:.2f} s to {high} of {promise['of_s']:.2f} s"
