"""What rules conclude from a run."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

Severity = Literal["critical", "warning", "info"]


@dataclass(frozen=True)
class Figure:
    """One measured number that a finding rests on.

    Attributes:
        name: What it is, in words.
        value: The number.
        unit: Its unit: "%", "ms", "B", "W", "ops", "" and so on.
    """

    name: str
    value: float
    unit: str = ""


@dataclass(frozen=True)
class Finding:
    """A rule's conclusion.

    Attributes:
        code: Stable identifier, such as "input-bound".
        title: One line.
        severity: "critical", "warning" or "info".
        evidence: The figures it rests on.
        advice: What to do, one action a line, the most rewarding first.
        gain: Expected speed-up at most, as a factor of at least 1.
    """

    code: str
    title: str
    severity: Severity
    evidence: tuple[Figure, ...]
    advice: tuple[str, ...]
    gain: float | None = None


@dataclass(frozen=True)
class Verdict:
    """Every rule's outcome.

    Attributes:
        findings: What is wrong, worst first.
        passed: Codes of the rules that looked and found nothing.
        not_applicable: By code, why a rule could not look.
    """

    findings: tuple[Finding, ...] = ()
    passed: tuple[str, ...] = ()
    not_applicable: dict[str, str] = field(default_factory=dict)
