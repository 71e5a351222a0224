"""Findings: the conclusions that rules draw from a run."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

Severity = Literal["critical", "warning", "info"]


@dataclass(frozen=True)
class Figure:
    """One measured number that supports a finding.

    Attributes:
        key: Stable identifier, such as "step_time".
        unit: Unit of the number: "%", "ms", "B", "W", "ops" and so on; "" for none.
        of: The stage, device or worker that the figure is about; "" for the run.
        sentence: Sentence with {value} and {of} in their places; one that begins with a comma
            continues that of the figure before.
    """

    key: str
    value: float
    unit: str = ""
    of: str = ""
    sentence: str = "{value}"

    @property
    def name(self) -> str:
        """Key and what it is about, in words: "delay of worker 2"."""
        return f"{self.key.replace('_', ' ')} {self.of}".rstrip()


@dataclass(frozen=True)
class Saving:
    """Time that a run would save without one cause, in seconds of its wall time.

    Savings of several findings do not add up: once the first cause is fixed, the next run shows
    what remains.

    Attributes:
        high_s: Largest saving that is expected from removing the cause.
        of_s: Wall time of the run, or the time of its steps if only that is known.
        upper_bound: Whether no change can save more than `high_s`.

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
            raise ValueError(f"`of_s` must be above 0. Received: of_s={self.of_s!r}")

    @property
    def is_negligible(self) -> bool:
        """Whether even the largest expected saving is under 1 % of the wall time; our choice."""
        return self.high_s is not None and self.high_s < 0.01 * self.of_s

    @property
    def expected_s(self) -> float:
        """Middle of the range, or `low_s` if `high_s` is unknown. Findings are ordered by it."""
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
        """Factor by which the whole run is faster without `low_s`; None if infinite."""
        return _speed_up(self.fraction)

    @property
    def highest_speed_up(self) -> float | None:
        """Factor by which the whole run is faster without `high_s`; None if unknown or infinite."""
        fraction = self.highest_fraction
        return None if fraction is None else _speed_up(fraction)


def _speed_up(fraction: float) -> float | None:
    return 1 / (1 - fraction) if fraction < 1 else None


@dataclass(frozen=True)
class Change:
    """Effect of the first advice on a line of the user's code."""

    before: str
    after: str
    location: str | None = None


@dataclass(frozen=True)
class Advice:
    """A recommended action.

    Attributes:
        kind: Name of what it changes, such as "cache"; "" if nothing depends on that.
    """

    text: str
    kind: str = ""
    code: tuple[str, ...] = ()


@dataclass(frozen=True)
class Finding:
    """Conclusion of a rule.

    Attributes:
        advice: Recommended actions, one per line, the most rewarding first.
        actions: Lines of `advice` with their code.
        about: Callback, device or cause that it is about, if findings of its code differ in that;
            "" otherwise.
        defined: Where the function is defined that the title names, if the title has the line that
            passes it to the pipeline: "load is defined at train.py:13"; "" otherwise.
    """

    code: str
    title: str
    severity: Severity
    evidence: tuple[Figure, ...]
    advice: tuple[str, ...]
    saving: Saving | None = None
    change: Change | None = None
    actions: tuple[Advice, ...] = ()
    about: str = ""
    defined: str = ""


@dataclass(frozen=True)
class Verdict:
    """Outcome of all rules.

    Attributes:
        findings: Problems that were found: what ended the run first, then by severity, then by
            expected saving, the largest first.
        passed: Codes of the rules that checked and found nothing, or nothing that another one does
            not say better.
        not_applicable: Reasons why rules could not check, by code.
        too_short: Evidence that a longer run would have had, by code of the rule that lacks it.
        context: Sentence on the load by other processes, which no change of the script removes;
            None if there was little, or it is unknown.
    """

    findings: tuple[Finding, ...] = ()
    passed: tuple[str, ...] = ()
    not_applicable: dict[str, str] = field(default_factory=dict)
    too_short: dict[str, str] = field(default_factory=dict)
    context: str | None = None
