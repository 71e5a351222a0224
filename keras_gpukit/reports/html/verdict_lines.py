"""A run's verdict in one line."""

from __future__ import annotations

from keras_gpukit.records.finding import Verdict
from keras_gpukit.records.report import RunReport
from keras_gpukit.reports import phrases, units
from keras_gpukit.reports.html.words import verdict
from keras_gpukit.rules.verdict import ENDED_BY

_MOST = 0.5


def verdict_line(run: RunReport) -> str:
    """Returns the worst finding, or a sentence that nothing was found.

    For a run that did not complete, the line also says how it ended. If more than half of the rules
    could not judge, a line without a critical finding or warning says what was not judged, and why.
    """
    told, end = verdict(run), _end(run)
    if told.severity in ("critical", "warning"):
        headline = f"{told.severity}: {told.headline}"
        is_said = end is None or (told.finding is not None and told.finding.code in ENDED_BY)
        return headline if is_said else f"{headline}; {end}"
    sentences = [
        None if end is None else f"{end[:1].upper()}{end[1:]}.",
        # Without a finding, an interrupted run's headline only says that it was interrupted.
        None if run.state == "interrupted" and told.finding is None else told.headline,
        _mostly_not_judged(run.summary.verdict),
    ]
    return " ".join(filter(None, sentences))


def _end(run: RunReport) -> str | None:
    """Describes how a run ended, or that it is still running; None if it completed."""
    where = _where(run)
    if run.state == "running":
        return f"still running{where}"
    if run.state == "interrupted":
        by = run.summary.ended_by
        return f"interrupted{where}" if by is None else f"interrupted by {by}"
    if run.state == "unfinished":
        return f"ended without a summary{where} (killed, or without a Monitor)"
    return None


def _where(run: RunReport) -> str:
    if run.progress is not None:
        return f" after step {run.progress.step:,}"
    return "" if run.summary.steps is None else f" after {units.count(run.summary.steps, 'step')}"


def _mostly_not_judged(told: Verdict) -> str | None:
    rules = len(told.findings) + len(told.passed) + len(told.not_applicable)
    is_most = len(told.not_applicable) > _MOST * rules
    return phrases.checks(told) if is_most else None
