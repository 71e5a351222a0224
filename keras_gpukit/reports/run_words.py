"""A run of a report in words: its headline, its verdict in one line, and how it ended."""

from __future__ import annotations

from dataclasses import dataclass

from keras_gpukit.records.finding import Finding
from keras_gpukit.records.report import Report, RunReport
from keras_gpukit.records.run import RunSummary
from keras_gpukit.records.steps import Progress
from keras_gpukit.reports import phrases, units
from keras_gpukit.reports.unseen_compute import unseen_compute
from keras_gpukit.rules.verdict import ENDED_BY
from keras_gpukit.rules.whole_run.endings import doing

_RUNS_LISTED = 3


@dataclass(frozen=True)
class Headline:
    """The headline of a run.

    Attributes:
        severity: "critical", "warning" or "info" with a finding. Without one, "good"; or "unknown"
            if the run was not judged, was interrupted, or its time is not accounted for.
        text: Summary in one line.
        finding: Finding that the headline states; None without one.
    """

    severity: str
    text: str
    finding: Finding | None = None


def headline_of(summary: RunSummary) -> Headline:
    """Returns the worst finding as a headline; without a finding, "good" or "unknown"."""
    verdict = summary.verdict
    worst = phrases.worst(summary)
    if worst is not None:
        return Headline(worst.severity, worst.title, worst)
    if not (verdict.findings or verdict.passed or verdict.not_applicable):
        return Headline("unknown", "Not judged: the run has no figures to judge by.")
    # Finding nothing is no good news if the run's time is not accounted for.
    is_unclear = phrases.ACCOUNT_OF_TIME in verdict.not_applicable or unseen_compute(summary)
    severity = "unknown" if is_unclear or summary.ending == "interrupted" else "good"
    return Headline(severity, phrases.all_well(summary))


def verdict_lines(report: Report) -> list[str]:
    """Returns a line on each of the newest runs, and how many more there are.

    Of workers that were compared, only the chief's run has one.
    """
    compared = {each.folder for each in report.runs if each.summary.workers is not None}
    listed = [each for each in report.runs if each.folder not in compared or each.is_chief]
    lines = [units.printable(f"{each.name}: {verdict_line(each)}") for each in listed]
    shown = lines[:_RUNS_LISTED]
    left_out = len(report.runs) - len(shown)
    return [*shown, *([f"and {left_out} more runs"] if left_out > 0 else [])]


def verdict_line(run: RunReport) -> str:
    """Returns the worst finding, or a sentence that nothing was found.

    For a run that did not complete, the line also says how it ended.
    """
    headline, end = headline_of(run.summary), _end(run)
    finding = headline.finding
    if headline.severity in ("critical", "warning"):
        line = f"{headline.severity}: {headline.text}"
        names_end = end is None or (finding is not None and finding.code in ENDED_BY)
        return line if names_end else f"{line}; {end}"
    sentences = (
        None if end is None else f"{end[:1].upper()}{end[1:]}.",
        # Without a finding, an interrupted run's headline only says that it was interrupted.
        None if run.state == "interrupted" and finding is None else headline.text,
    )
    return " ".join(filter(None, sentences))


def _end(run: RunReport) -> str | None:
    """Describes how a run ended, or that it is still running; None if it completed."""
    steps, where = run.summary.steps, ""
    if run.progress is not None:
        where = f" after step {run.progress.step:,}"
    elif steps is not None:
        where = f" after {units.count(steps, 'step')}"
    by = run.summary.ended_by
    return {
        "completed": None,
        "running": f"still running{where}",
        "interrupted": f"interrupted{where}" if by is None else f"interrupted by {by}",
        "unfinished": f"ended without a summary{where} (killed, or without a Monitor)",
    }[run.state]


def running(summary: RunSummary, progress: Progress | None) -> str:
    """Describes a run in progress: what it does, its figures, and the worst finding so far."""
    now = "starting" if progress is None else doing(progress)
    lines = [f"keras-gpukit: {now}", *filter(None, [", ".join(phrases.headline(summary))])]
    worst = phrases.worst(summary)
    if worst is not None:
        lines.append(f"So far: {worst.title} ({worst.code})")
        lines += [f"Next: {each}" for each in worst.advice[:1]]
    return "\n".join(map(units.printable, lines))


def state_note(run: RunReport) -> str | None:
    """Returns a note on a run that is in progress or ended early; None if it completed."""
    if run.state == "completed":
        return None
    lasted, hang = "an unknown time", ""
    if run.began_s is not None and run.ended_s is not None:
        lasted = units.duration(max(run.ended_s - run.began_s, 0.0))
    if run.hang is not None and run.hang.lasted_s is None:
        since = units.moment(run.hang.began_s)
        hang = f" No step has ended since {since}: {run.hang.activity}."
    if run.state == "running":
        now = doing(run.progress) if run.progress else "its first step has not started"
        return (
            f"Running for {lasted}: {now}.{hang} The pipeline's stages and the parts "
            "of the wall time are updated less often than the charts."
        )
    after = None if run.began_s is None else f"{lasted} after it began"
    where = None if run.progress is None else f"while {doing(run.progress)}"
    if run.state == "interrupted":
        what = run.summary.ended_by or "An exception or interrupt"
        ended = ", ".join(filter(None, (f"{what} ended the run", after, where)))
        return f"{ended}.{hang} The page shows what was measured until then."
    alive = f"It was last alive at {units.moment(run.ended_s)}"
    seen = ", ".join(filter(None, (alive, after, where)))
    return (
        "The run wrote no summary: its process was killed, or it had no Monitor. "
        f"{seen}.{hang} The page shows what was recorded until then."
    )
