"""A part of the evidence kit: its claims about GPUs, how they are measured, how they are judged."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

ORDER = (
    "setup",
    "stall",
    "overhead",
    "memory",
    "profiles",
    "placement",
    "utilization",
    "precision",
)
"""The parts, most important first: a lent GPU may be gone before the last one has run."""

Measured = Mapping[str, Any]
"""Measurements by name. Each can be written as JSON; one that failed has its reason."""


@dataclass(frozen=True)
class Claim:
    """Something this package assumes about GPUs."""

    name: str
    expected: str
    """What a GPU should show, in plain words."""
    falsified_by: str
    """What would prove the claim wrong."""


@dataclass(frozen=True)
class Outcome:
    """What the measurements say about a claim."""

    holds: bool | None
    """None if the claim was not judged."""
    evidence: str
    """One sentence with the figures, or with the reason why the claim was not judged."""
    headline: str | None = None
    """What README's first screen says of it, unless it is falsified."""


@dataclass(frozen=True)
class Part:
    """One question to a GPU, answered in minutes."""

    name: str
    question: str
    minutes: float
    """The limit on a GPU, after which the part is killed."""
    claims: tuple[Claim, ...]
    measure: Callable[[bool, Path], Iterator[tuple[str, Any]]]
    """`measure(small, folder)` yields each measurement with its name as soon as it is there, so
    that a part that is killed keeps what it has measured. `small` makes the whole part take seconds
    on a CPU. `folder` exists; files written there are kept with the results."""
    judge: Callable[[Measured], dict[str, Outcome]]
    """Judges full-size measurements from a GPU; others are never judged. Those of a killed part are
    incomplete. Reads nothing else, so that old measurements can be judged again. Claims that it
    leaves out are not judged."""

    def unjudged(self, reason: str) -> dict[str, Outcome]:
        """Returns the outcomes of claims that nothing is known about, and why."""
        return {claim.name: Outcome(None, reason) for claim in self.claims}


def attempt(function: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
    """Returns a measurement; if it fails, its "error", so that the others are still measured."""
    try:
        return function(*arguments, **named)
    except Exception as error:
        return {"error": f"{type(error).__name__}: {str(error)[:300]}"}


PACKAGE = "benchmarks.gpu.parts"


def load_part(name: str, package: str = PACKAGE) -> Part:
    """Returns a part by its name.

    Raises:
        ModuleNotFoundError: If there is no such part.
    """
    part: Part = import_module(f"{package}.{name}").PART
    return part
