"""The base class of rules: small classes that look at a run and draw one conclusion about it.

Also what rules share: readings of the machine, and how many of them it takes to judge.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from keras_gpukit.errors import one_line
from keras_gpukit.records.finding import Figure, Finding, Saving, Severity
from keras_gpukit.records.machine import GPUUtilization, HostUtilization
from keras_gpukit.records.run import RunSummary

TOO_SHORT = "the run was too short"
NO_CLUSTER, ONE_REPLICA = "there is no cluster", "there is one replica"
ONE_WORKER = "the run has one worker and one replica, or others were not compared here"
NO_SCRIPT = "only keras-gpukit run sees all calls of a script"
NOT_CONCERNED = (NO_CLUSTER, ONE_REPLICA, ONE_WORKER, NO_SCRIPT)
"""Reasons for which a rule does not concern a run, and no evidence is missing."""
MINIMUM_SAMPLES = 5
"""Least number of readings of the machine; means of fewer show start-up rather than training.

Our choice: tracing and compiling the first step commonly lasts for the first one or two readings.
"""


@dataclass(frozen=True)
class NotApplicable:
    """A rule's outcome if the evidence is missing or inconclusive.

    Attributes:
        reason: Why the rule could not judge, in one line. One that begins with `TOO_SHORT` is that
            a longer run would have the evidence.
    """

    reason: str


Outcome = Finding | NotApplicable | None
"""A finding, the reason why the rule could not judge, or None if it looked and found nothing."""


class Rule(ABC):
    """One question that is asked of every run.

    Attributes:
        code: Stable identifier, also the heading of the rule's section in the documentation.
        subject: Part of the run that the rule looks at, in a few words; rules may share it.
        title: The finding in one line.
        requires: The evidence that the rule needs to judge.
    """

    code: ClassVar[str]
    subject: ClassVar[str]
    title: ClassVar[str]
    requires: ClassVar[str]

    @abstractmethod
    def judge(self, summary: RunSummary) -> Outcome:
        """Judges a run."""

    def abstain(self, because: str | None = None) -> NotApplicable:
        """Returns no answer. By default the reason is that the required evidence is missing."""
        return NotApplicable(one_line(because or f"needs {self.requires}"))

    def find(
        self,
        severity: Severity,
        *evidence: Figure,
        advice: tuple[str, ...],
        saving: Saving | None = None,
        title: str | None = None,
    ) -> Finding:
        """Returns a finding. A negligible saving is left out and makes the finding a remark."""
        if saving is not None and saving.is_negligible:
            severity, saving = "info", None
        return Finding(self.code, title or self.title, severity, evidence, advice, saving)


def gpu_readings(summary: RunSummary) -> tuple[GPUUtilization, ...]:
    """Returns the GPUs' readings; empty if there are none, or too few."""
    record = summary.utilization
    return record.gpus if record and record.samples >= MINIMUM_SAMPLES else ()


NO_GPU = "there is no GPU"


def gpu_readings_unknown_because(summary: RunSummary) -> str | None:
    """Returns why there are no or too few readings of the GPUs; None if the reason is unknown."""
    if not summary.environment.gpus:
        return NO_GPU
    record = summary.utilization
    if record is None or record.gpus_unknown_because is not None:
        return record.gpus_unknown_because if record else None
    return readings_too_few(summary)


def host_readings(summary: RunSummary) -> HostUtilization | None:
    """Returns the host's readings; None if there are none, or too few."""
    record = summary.utilization
    return record.host if record and record.samples >= MINIMUM_SAMPLES else None


def readings_too_few(summary: RunSummary) -> str | None:
    """Returns the reason if there are readings, but too few; None if there are none or enough."""
    record = summary.utilization
    if record is None or not 0 < record.samples < MINIMUM_SAMPLES:
        return None
    read = f"the machine was read {times(record.samples)}"
    return f"{TOO_SHORT}: {read}; a verdict needs {MINIMUM_SAMPLES} readings"


def times(count: int) -> str:
    """Formats how often something happened: "once", "3 times"."""
    return "once" if count == 1 else f"{count} times"


def seconds(duration_s: float) -> str:
    """Formats seconds for a title, without the unit: "9.4", "176"."""
    return f"{duration_s:.0f}" if duration_s >= 10 else f"{duration_s:.1f}"


def percent(name: str, fraction: float) -> Figure:
    """Returns a share, 0 to 1, as a figure in percent."""
    return Figure(name, 100 * fraction, "%")
