"""A part of the evidence kit: its claims about GPUs, how they are measured, how they are judged."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

ORDER = (
    "stall:8-steps",
    "stall:to-device",
    "stall:mirrored",
    "stall:1-step",
    "captures:automatic",
    "launches:all",
    "script:all",
    "placement:real",
    "placement:predicted",
    "placement:eager",
    "first-step:resnet",
    "predictions:recurrent",
    "compute:all",
    "bench:all",
    "limits:out-of-memory",
    "predictions:others",
    "predictions:images",
    "predictions:images-2",
    "setup:async",
    "setup:doctor",
    "limits:batch-size",
    "overhead:all",
    "setup:growth",
    "setup:logical",
    "setup:reversed",
    "setup:limit",
    "setup:hidden",
    "setup:uuid",
    "setup:all",
    "precision:all",
    "profiles:all",
    "stall:synchronous",
    "stall:jit",
    "memory:planted",
    "memory:out-of-memory",
    "limits:jit",
    "predictions:images-jit",
    "predictions:images-jit-2",
    "predictions:images-jit-3",
)
"""The slices, most important first: a lent GPU may be gone before the last one has run.

Those whose steps XLA compiles for a minute or more, alone, are last."""

Measured = Mapping[str, Any]
"""Measurements by name. Each can be written as JSON; one that failed is a dict with an "error"."""
Cases = Iterable[tuple[str, Callable[[], Any]]]
"""What is measured, by name. Nothing is loaded before the first one is called."""


@dataclass(frozen=True)
class Outcome:
    """What the measurements say about a claim."""

    holds: bool | None
    """None if the claim was not judged."""
    evidence: str
    """One sentence with the figures, or with the reason why the claim was not judged."""
    headline: str | None = None
    """What README says of it, without an interval, unless it is falsified."""
    corrected: str = ""
    """If falsified, what has been corrected since; no GPU has shown yet that it is."""


@dataclass(frozen=True)
class Claim:
    """Something this package assumes about GPUs.

    Attributes:
        expected: What a GPU should show, in plain words; anything else proves the claim wrong.
        judge: Judges full-size measurements from a GPU; others are never judged. Reads nothing
            else, so that old measurements can be judged again.
        needs: Names of the measurements that it takes; without any it takes all, by name, which
            those of a killed part may lack.
        corrected: Slice and hash of the code that falsified it, as in "all:29a3492594e7", and what
            has been corrected in the code since.
    """

    name: str
    expected: str
    judge: Callable[..., Outcome] | None = None
    needs: tuple[str, ...] = ()
    corrected: tuple[str, str] = "", ""

    def outcome(self, measured: Measured) -> Outcome:
        """Judges the claim, if its measurements are there and did not fail."""
        if self.judge is None:
            return Outcome(None, "it was not measured")
        for name in self.needs:
            if name not in measured:
                return Outcome(None, f"{name} was not measured")
            if error := error_of(measured[name]):
                return Outcome(None, f"measuring {name} failed: {error.splitlines()[-1]}")
        return self.judge(*([measured[name] for name in self.needs] or [measured]))


@dataclass(frozen=True)
class Slice:
    """Cases of a part that share a process.

    Attributes:
        cases: `cases(small, folder)` returns them. `small` makes them take seconds on a CPU. Files
            in `folder` are kept with the results.
        seconds: The limit on a GPU, after which the process is killed.
        alone: Whether the machine must be quiet: it times something, or reads the memory of a whole
            GPU. Others run at the same time, and take of the GPU only what they need.
        environment: Variables of the process, set before TensorFlow's runtime starts.
    """

    cases: Callable[[bool, Path], Cases]
    seconds: float = 60.0
    alone: bool = True
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Part:
    """One question to a GPU, answered in minutes."""

    name: str
    question: str
    slices: Mapping[str, Slice]
    claims: tuple[Claim, ...]

    def judge(self, measured: Measured) -> dict[str, Outcome]:
        """Judges each claim."""
        return {claim.name: claim.outcome(measured) for claim in self.claims}


def attempt(function: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
    """Returns a measurement; if it fails, its "error", so that the others are still measured."""
    try:
        return function(*arguments, **named)
    except Exception as error:
        return {"error": f"{type(error).__name__}: {str(error)[:300]}"}


def error_of(value: Any) -> str | None:
    """Returns why a measurement failed; None if it didn't."""
    return value.get("error") if isinstance(value, Mapping) else None


PACKAGE = "benchmarks.gpu.parts"


def load_part(name: str, package: str = PACKAGE) -> Part:
    """Returns a part by its name."""
    part: Part = import_module(f"{package}.{name.replace('-', '_')}").PART
    return part


def load_slice(name: str, package: str = PACKAGE) -> tuple[Part, Slice]:
    """Returns a part, and its slice, from a name such as "stall:8-steps"."""
    of_part, _, of_slice = name.partition(":")
    part = load_part(of_part, package)
    return part, part.slices[of_slice]


def part_names() -> list[str]:
    """Returns the names of all parts, in order."""
    return list(dict.fromkeys(name.partition(":")[0] for name in ORDER))
