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
class Saving:
    """What a run would save without one cause, as seconds of its wall time.

    Savings of several findings do not add up: once the first cause is gone, the next run shows
    what is left.

    Attributes:
        low_s: The part of the wall time that was seen to go to the cause; 0 where no part was.
        high_s: The most that removing the cause is expected to save; None where that is unknown.
        of_s: The run's wall time; the time of its steps where only that is known.
        basis: What the figures rest on: "wait", "epoch starts", "freed cores" and so on.
        upper_bound: Whether more than `high_s` cannot be saved, whatever is done.

    Raises:
        ValueError: If the wall time is not positive.
    """

    low_s: float
    high_s: float | None
    of_s: float
    basis: str
    upper_bound: bool = False

    def __post_init__(self) -> None:
        if self.of_s <= 0:
            raise ValueError(f"there is nothing to save of {self.of_s} s")

    @property
    def is_negligible(self) -> bool:
        """Whether even the most that is expected is under 1 % of the wall time; our choice."""
        return self.high_s is not None and self.high_s < 0.01 * self.of_s

    @property
    def expected_s(self) -> float:
        """The middle of the range; by this, findings are ordered."""
        return self.low_s if self.high_s is None else (self.low_s + self.high_s) / 2

    @property
    def fraction(self) -> float:
        """`low_s` as a share of the wall time, 0 to 1."""
        return self.low_s / self.of_s

    @property
    def highest_fraction(self) -> float | None:
        """`high_s` as a share of the wall time, 0 to 1."""
        return None if self.high_s is None else self.high_s / self.of_s

    @property
    def speed_up(self) -> float | None:
        """The factor by which the whole run is faster without `low_s`; None if nothing remains."""
        return _speed_up(self.fraction)

    @property
    def highest_speed_up(self) -> float | None:
        """The same without `high_s`; None also where that is unknown."""
        fraction = self.highest_fraction
        return None if fraction is None else _speed_up(fraction)


def _speed_up(fraction: float) -> float | None:
    return 1 / (1 - fraction) if fraction < 1 else None


@dataclass(frozen=True)
class Finding:
    """A rule's conclusion.

    Attributes:
        code: Stable identifier, such as "input-bound".
        title: One line.
        severity: "critical", "warning" or "info".
        evidence: The figures it rests on.
        advice: What to do, one action a line, the most rewarding first.
        saving: What the run would save without the cause; None where that is unknown.
    """

    code: str
    title: str
    severity: Severity
    evidence: tuple[Figure, ...]
    advice: tuple[str, ...]
    saving: Saving | None = None


@dataclass(frozen=True)
class Verdict:
    """Every rule's outcome.

    Attributes:
        findings: What is wrong: remarks last, otherwise the largest saving first.
        passed: Codes of the rules that looked and found nothing.
        not_applicable: By code, why a rule could not look.
    """

    findings: tuple[Finding, ...] = ()
    passed: tuple[str, ...] = ()
    not_applicable: dict[str, str] = field(default_factory=dict)
