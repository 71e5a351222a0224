"""The base class of rules: small classes that look at a run and draw one conclusion about it.

Also what rules share: figures, words for them, and readings of the machine.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from keras_gpukit.errors import one_line
from keras_gpukit.records.finding import Advice, Figure, Finding, Saving, Severity
from keras_gpukit.records.machine import GPUUtilization, HostUtilization
from keras_gpukit.records.run import RunSummary
from keras_gpukit.records.script import ScriptRecord

TOO_SHORT = "the run was too short"
NO_GPU = "no GPU"
MINIMUM_SAMPLES = 5
"""Least number of readings of the machine; means of fewer show start-up rather than training.

Our choice: tracing and compiling the first step commonly lasts for the first one or two readings.
"""


@dataclass(frozen=True)
class NotApplicable:
    """A rule's outcome if the evidence is missing or inconclusive.

    Attributes:
        reason: Why the rule could not judge, in one line.
        too_short: Evidence that a longer run would have; None if that is not what is missing.
    """

    reason: str
    too_short: str | None = None


ONE_WORKER = NotApplicable("one worker")
NO_SCRIPT = NotApplicable("only keras-gpukit run sees all calls of a script")

Outcome = Finding | NotApplicable | None
"""A finding, the reason why the rule could not judge, or None if it looked and found nothing."""


class Measure:
    """A number that a rule gives as evidence: an attribute of the rule's class, and its key.

    Attributes:
        sentence: Sentence with its {value}, and with {of}, the stage, device or worker that it is
            about. One that begins with a comma continues the sentence before it.
        unit: Unit of the number, as of a `Figure`.
    """

    def __init__(self, sentence: str, unit: str = "") -> None:
        self.sentence, self.unit = sentence, unit

    def __set_name__(self, owner: type, name: str) -> None:
        self.key = name

    def __call__(self, value: float, of: str = "") -> Figure:
        """Returns the figure with this number."""
        return Figure(self.key, value, self.unit, of, self.sentence)


class Share(Measure):
    """A share, given from 0 to 1 and shown in percent."""

    def __init__(self, sentence: str) -> None:
        super().__init__(sentence, "%")

    def __call__(self, value: float, of: str = "") -> Figure:
        """Returns the figure with this share."""
        return super().__call__(100 * value, of)


class Rule(ABC):
    """One question that is asked of every run.

    The section of `docs/reference/rules.md` with its code says in prose what its thresholds and its
    saving are made of; `reference.py` fills in what the class says.

    Attributes:
        code: Stable identifier, also the heading of the rule's section in the documentation.
        title: The finding in one line.
        requires: The evidence that the rule needs to judge.
        charts: Charts that show a finding, the most relevant first; empty for none.
        in_captures: Whether a finding is on single steps, which captures show.
        tried_by: Changes that `tune` tries for a finding, the first one first; empty if only the
            author of the model can change it.
        comes_first: Which of its findings precede those of other rules, however severe these are.
        ends_run: Whether its findings are on what ended a run.
        judges_first_step: Whether it also judges a run in which no step ended.
        supersedes: Codes of findings that are left out next to one of this rule, which says more;
            with what they are about, as in "cpu-fallback: host function", if only then.
        yields_to_all: Whether any other finding says more than one of this rule.
        yields_to_remarks: Whether remarks say more, too.
        same_cause: Codes of rules whose finding may have the same cause as one of this rule, by
            what that is about; see `verdict`.
    """

    code: ClassVar[str]
    title: ClassVar[str]
    requires: ClassVar[str]
    charts: ClassVar[tuple[str, ...]]
    in_captures: ClassVar[bool] = False
    tried_by: ClassVar[tuple[str, ...]] = ()
    comes_first: ClassVar[Literal["never", "if critical", "always"]] = "never"
    ends_run: ClassVar[bool] = False
    judges_first_step: ClassVar[bool] = False
    supersedes: ClassVar[tuple[str, ...]] = ()
    yields_to_all: ClassVar[bool] = False
    yields_to_remarks: ClassVar[bool] = True
    same_cause: ClassVar[dict[str, str]] = {}

    @abstractmethod
    def judge(self, summary: RunSummary) -> Outcome:
        """Judges a run."""

    def yields_to(self, other: Rule, finding: Finding) -> bool:
        """Whether a finding of another rule says more than this finding of this one."""
        names = {finding.code, f"{finding.code}: {finding.about}"}
        return self.yields_to_all or not names.isdisjoint(other.supersedes)

    def abstain(self, because: str | NotApplicable | None = None) -> NotApplicable:
        """Returns no answer. By default the reason is that the required evidence is missing."""
        if isinstance(because, NotApplicable):
            return because
        return NotApplicable(one_line(because or f"needs {self.requires}"))

    def find(
        self,
        severity: Severity,
        *evidence: Figure,
        advice: Sequence[str | Advice],
        saving: Saving | None = None,
        title: str | None = None,
        about: str = "",
    ) -> Finding:
        """Returns a finding. A negligible saving is left out and makes the finding a remark.

        Code in a line of advice is between backquotes.
        """
        if saving is not None and saving.is_negligible:
            severity, saving = "info", None
        actions = tuple(map(advise, advice))
        lines = tuple(action.text for action in actions)
        title = title or self.title
        return Finding(self.code, title, severity, evidence, lines, saving, None, actions, about)


class ScriptRule(Rule):
    """A rule on a whole script, which no chart of a run shows."""

    charts = ()
    judges_first_step = True  # what a script does is no part of a run

    def judge(self, summary: RunSummary) -> Outcome:
        return self.abstain(NO_SCRIPT) if not summary.script else self.judge_script(summary.script)

    @abstractmethod
    def judge_script(self, script: ScriptRecord) -> Finding | None:
        """Judges a script, also without a summary of one of its runs."""


def advise(text: str | Advice, kind: str = "") -> Advice:
    """Returns a line of advice, in whose text code is between backquotes."""
    if isinstance(text, Advice):
        return text
    pieces = text.split("`")
    return Advice("".join(pieces), kind, tuple(pieces[1::2]))


def too_short(because: str) -> NotApplicable:
    """Returns no answer, since the run was too short."""
    return NotApplicable(one_line(f"{TOO_SHORT}: {because}"), because)


def gpu_readings(summary: RunSummary) -> tuple[GPUUtilization, ...]:
    """Returns the GPUs' readings; empty if there are none, or too few."""
    record = summary.utilization
    return record.gpus if record and record.samples >= MINIMUM_SAMPLES else ()


def gpu_readings_unknown_because(summary: RunSummary) -> str | NotApplicable | None:
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


def readings_too_few(summary: RunSummary) -> NotApplicable | None:
    """Returns the reason if there are readings, but too few; None if there are none or enough."""
    record = summary.utilization
    if record is None or not 0 < record.samples < MINIMUM_SAMPLES:
        return None
    read = f"the machine was read {times(record.samples)}"
    return too_short(f"{read}; a verdict needs {MINIMUM_SAMPLES} readings")


def times(count: int) -> str:
    """Formats how often something happened: "once", "3 times"."""
    return "once" if count == 1 else f"{count} times"


def seconds(duration_s: float) -> str:
    """Formats seconds for a title, without the unit: "0.14", "9.4", "176"."""
    form = ".0f" if duration_s >= 10 else ".1f" if duration_s >= 1 else ".2g"
    return f"{duration_s:{form}}"
