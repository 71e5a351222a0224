"""What judges share: measurements that are missing or failed leave a claim unjudged."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from benchmarks.gpu.part import Measured, Outcome

Judge = tuple[tuple[str, ...], Callable[..., Outcome]]
"""Names of the measurements that a claim needs, and what judges them."""


def judge_each(measured: Measured, judges: Mapping[str, Judge]) -> dict[str, Outcome]:
    """Judges each claim whose measurements are there.

    Args:
        measured: The measurements; one that failed is a dict with an "error".
        judges: A judge for each claim.
    """
    return {claim: _judge(measured, *judge) for claim, judge in judges.items()}


def _judge(measured: Measured, names: tuple[str, ...], judge: Callable[..., Outcome]) -> Outcome:
    for name in names:
        if name not in measured:
            return Outcome(None, f"{name} was not measured")
        if error := error_of(measured[name]):
            return Outcome(None, f"measuring {name} failed: {error.splitlines()[-1]}")
    return judge(*(measured[name] for name in names))


def error_of(value: Any) -> str | None:
    """Returns why a measurement failed; None if it didn't."""
    return value.get("error") if isinstance(value, Mapping) else None


def at_most(what: str, value: float | None, limit: float, unit: str = "") -> Outcome:
    """Judges a figure that must not be larger than its limit; an unknown one is not judged."""
    if value is None:
        return Outcome(None, f"{what} is unknown")
    return Outcome(value <= limit, f"{what} is {value:.4g}{unit}, the limit {limit:.4g}{unit}.")
