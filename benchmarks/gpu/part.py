"""A part of the evidence kit: a question to a GPU, what is measured, and how claims are judged."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import Any

ORDER = (
    "stall:synchronous",
    "stall:jit",
    "setup:limit",
    "setup:logical",
    "setup:reversed",
    "setup:all",
    "limits:out-of-memory",
    "predictions:images",
    "predictions:others",
    "precision:all",
    "activity:all",
    "launches:all",
    "bench:all",
    "limits:batch-size",
    "overhead:all",
    "limits:jit",
    "predictions:images-jit",
    "stall:1-step",
    "stall:8-steps",
    "placement:real",
    "predictions:recurrent",
    "setup:growth",
    "setup:async",
    "predictions:images-jit-2",
)
"""The slices, most important first: a lent GPU may be gone before the last one has run.

First come those of claims that are false or open, then those of claims that held."""

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
    corrected: str = ""
    """If falsified, what has been corrected since; no GPU has shown yet that it is."""


@dataclass(frozen=True)
class Claim:
    """Something this package assumes about GPUs."""

    name: str
    expected: str
    """What a GPU should show, in plain words; anything else proves the claim wrong."""
    judge: Callable[..., Outcome]
    """Judges full-size measurements from a GPU, and reads nothing else, so that old ones can be
    judged again."""
    needs: tuple[str, ...] = ()
    """Names of the measurements that it takes; without any it takes those there are, by name."""
    corrected: tuple[str, str] = "", ""
    """Slice and hash of the code that falsified it, as in "all:29a3492594e7", and what has been
    corrected since."""

    def outcome(self, measured: Measured) -> Outcome:
        """Judges the claim, if its measurements are there and did not fail."""
        for name in self.needs:
            if name not in measured:
                return Outcome(None, f"{name} was not measured")
            if error := error_of(measured[name]):
                return Outcome(None, f"measuring {name} failed: {error.splitlines()[-1]}")
        return self.judge(*([measured[name] for name in self.needs] or [measured]))


@dataclass(frozen=True)
class Slice:
    """Cases of a part that share a process."""

    cases: Callable[[bool], Cases]
    """Returns them; in small, they take seconds on a CPU."""
    seconds: float
    """The limit on a GPU, after which the process is killed."""
    alone: bool
    """Whether the machine must be quiet: it times something, or reads the memory of a whole GPU."""


class Part:
    """One question to a GPU, answered in minutes; its module adds slices and claims."""

    def __init__(self, name: str, question: str) -> None:
        self.name, self.question = name, question
        self.slices: dict[str, Slice] = {}
        self.claims: list[Claim] = []

    def slice(self, name: str, seconds: float, *, case: str = "", alone: bool = True) -> Any:
        """Adds a slice: the decorated function returns its cases, or measures its only `case`."""

        def add(function: Callable[..., Any]) -> Callable[..., Any]:
            def only(small: bool) -> Cases:
                return [(case, partial(function, small))]

            self.slices[name] = Slice(only if case else function, seconds, alone)
            return function

        return add

    def claim(
        self, expected: str, *needs: str, name: str = "", corrected: tuple[str, str] = ("", "")
    ) -> Any:
        """Adds a claim: the decorated function judges it, and names it by default."""

        def add(judge: Callable[..., Outcome]) -> Callable[..., Outcome]:
            self.claims.append(Claim(name or judge.__name__, expected, judge, needs, corrected))
            return judge

        return add

    def judge(self, measured: Measured) -> dict[str, Outcome]:
        """Judges each claim."""
        return {claim.name: claim.outcome(measured) for claim in self.claims}


def error_of(value: Any) -> str | None:
    """Returns why a measurement failed; None if it didn't."""
    return value.get("error") if isinstance(value, Mapping) else None


PACKAGE = "benchmarks.gpu.parts"


def load_part(name: str, package: str = PACKAGE) -> Part:
    """Returns a part by its name."""
    part: Part = import_module(f"{package}.{name.replace('-', '_')}").PART
    return part


def load_slice(name: str, package: str = PACKAGE) -> Slice:
    """Returns a slice, from a name such as "stall:8-steps"."""
    of_part, _, of_slice = name.partition(":")
    return load_part(of_part, package).slices[of_slice]


def part_names() -> list[str]:
    """Returns the names of all parts, in order."""
    return list(dict.fromkeys(name.partition(":")[0] for name in ORDER))
