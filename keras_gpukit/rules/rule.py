"""What a rule is: a small class that looks at a run and says one thing about it.

Rules share the readings that are enough to conclude from, and how many that is.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from keras_gpukit.records.finding import Figure, Finding, Saving, Severity
from keras_gpukit.records.machine import GPUUtilization, HostUtilization
from keras_gpukit.records.run import RunSummary

MINIMUM_SAMPLES = 5
"""Readings of the machine below which its means say more about start-up than about training.

Our choice: tracing and compiling the first step commonly takes up the first reading or two.
"""


@dataclass(frozen=True)
class NotApplicable:
    """A rule's answer where the evidence is missing or says nothing.

    Attributes:
        reason: Why the rule could not look, in words.
    """

    reason: str


Outcome = Finding | NotApplicable | None
"""A finding, no answer, or None where the rule looked and found nothing."""


class Rule(ABC):
    """One question asked of every run.

    Attributes:
        code: Stable identifier, also the heading of the rule's section in the documentation.
        title: The finding in one line.
        requires: The evidence without which the rule gives no answer.
    """

    code: ClassVar[str]
    title: ClassVar[str]
    requires: ClassVar[str]

    @abstractmethod
    def judge(self, summary: RunSummary) -> Outcome:
        """Looks at a run."""

    def abstain(self, because: str | None = None) -> NotApplicable:
        """No answer; for want of what the rule requires, unless a better reason is known."""
        return NotApplicable(because or f"needs {self.requires}")

    def find(
        self,
        severity: Severity,
        *evidence: Figure,
        advice: tuple[str, ...],
        saving: Saving | None = None,
        title: str | None = None,
    ) -> Finding:
        """A finding of this rule; a saving that is negligible is not told, and is no warning."""
        if saving is not None and saving.is_negligible:
            severity, saving = "info", None
        return Finding(self.code, title or self.title, severity, evidence, advice, saving)


def gpu_readings(summary: RunSummary) -> tuple[GPUUtilization, ...]:
    """The GPUs' readings; empty where there are none, or too few."""
    record = summary.utilization
    return record.gpus if record and record.samples >= MINIMUM_SAMPLES else ()


NO_GPU = "there is no GPU"


def gpu_readings_unknown_because(summary: RunSummary) -> str | None:
    """Why there are no readings of the GPUs, where that is known."""
    if not summary.environment.gpus:
        return NO_GPU
    record = summary.utilization
    if record is None or record.gpus_unknown_because is not None:
        return record.gpus_unknown_because if record else None
    return readings_too_few(summary)


def host_readings(summary: RunSummary) -> HostUtilization | None:
    """The host's readings; None where there are none, or too few."""
    record = summary.utilization
    return record.host if record and record.samples >= MINIMUM_SAMPLES else None


def readings_too_few(summary: RunSummary) -> str | None:
    """That the machine was read, but less often than it takes; None where it was not read."""
    record = summary.utilization
    if record is None or not 0 < record.samples < MINIMUM_SAMPLES:
        return None
    times = "once" if record.samples == 1 else f"{record.samples} times"
    return f"the machine was read {times}, and it takes {MINIMUM_SAMPLES} readings to judge"


def percent(name: str, fraction: float) -> Figure:
    """A share, as a percentage."""
    return Figure(name, 100 * fraction, "%")
