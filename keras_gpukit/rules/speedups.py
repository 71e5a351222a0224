"""Which changes of how a model trains can be tried, and what findings promise of them."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from keras_gpukit.records.finding import Finding
from keras_gpukit.records.run import RunSummary
from keras_gpukit.records.tuning import Promise, TriedChange
from keras_gpukit.rules.savings import time_of_steps_s
from keras_gpukit.rules.verdict import RULES

CHANGES = (
    "input",
    "graph",
    "jit",
    "no-jit",
    "steps-per-execution",
    "mixed-precision",
    "memory-pool",
    "batch-size",
)
"""Names of all changes, in the order in which they are tried unless findings promise more."""

TRIED_BY = {rule.code: rule.tried_by for rule in RULES if rule.tried_by}
"""Changes that a finding advises, by the code of its rule. Findings without one here advise what
only the author of the model can change."""

TOLERANCE = 0.05
"""Largest difference of the loss after the same examples, as a share of it, at which a change
counts as leaving the training as it was; our choice."""


def changes_to_try(asked: Sequence[str]) -> tuple[str, ...]:
    """Returns the names of the changes that codes of rules or names of changes stand for."""
    names: list[str] = []
    for key in asked:
        found = (key,) if key in CHANGES else TRIED_BY.get(key)
        if found is None:
            raise ValueError(
                f"there is no change to try for {key!r}. Changes: {', '.join(CHANGES)}; codes of "
                f"findings: {', '.join(TRIED_BY)}"
            )
        names += [name for name in found if name not in names]
    return tuple(names)


def promises(summary: RunSummary) -> tuple[Promise, ...]:
    """Returns the gains that the findings on a run promise for the rate of its steps."""
    steps_s, found = time_of_steps_s(summary), []
    for finding in summary.findings:
        if finding.code in TRIED_BY and finding.saving is not None and steps_s > 0:
            low, high = (
                None if saved_s is None else _gain(saved_s, steps_s)
                for saved_s in (finding.saving.low_s, finding.saving.high_s)
            )
            found.append(Promise(finding.code, low or 1.0, high))
    return tuple(found)


def _gain(saved_s: float, steps_s: float) -> float | None:
    return steps_s / (steps_s - saved_s) if saved_s < steps_s else None


def promise_of(change: str, made: Sequence[Promise]) -> Promise | None:
    """Returns what was promised for a change; the largest promise if several findings name it."""
    of_change = [promise for promise in made if change in TRIED_BY.get(promise.code, ())]
    return max(of_change, key=lambda promise: promise.high or promise.low, default=None)


def by_hand(
    findings: Sequence[Finding], tried: Sequence[TriedChange], left: Collection[str]
) -> Finding | None:
    """Returns the first finding that costs time and that no change helped, or could if tried."""
    may_help = {trial.change for trial in tried if trial.kept}.union(left)
    costly = (
        finding
        for finding in findings
        if finding.severity != "info" and finding.saving and finding.advice
    )
    unchanged = (
        finding for finding in costly if may_help.isdisjoint(TRIED_BY.get(finding.code, ()))
    )
    return next(unchanged, None)


def in_order(names: Sequence[str], made: Sequence[Promise]) -> tuple[str, ...]:
    """Returns the names of changes, those that findings promise the most of first."""

    def promised(name: str) -> float:
        promise = promise_of(name, made)
        return -(promise.high or promise.low) if promise else -1.0

    return tuple(sorted(names, key=promised))


def changes_the_loss(ratio: float | None, tolerance: float) -> str:
    """Returns why a change does not leave the training as it was, by its loss; "" if it does."""
    if ratio is None or abs(ratio - 1) <= tolerance:
        return ""
    if ratio != ratio:
        return "changes the loss: it is not a number"
    more = "higher" if ratio > 1 else "lower"
    return f"changes the loss: {100 * abs(ratio - 1):.0f} % {more} after the same examples"
