"""A run of a report in words: its headline, its verdict in one line, and how it ended."""

from __future__ import annotations

from dataclasses import dataclass

from keras_gpukit.errors import one_line
from keras_gpukit.records.finding import Finding
from keras_gpukit.records.profile import ProfileRecord
from keras_gpukit.records.report import Report, RunReport, State
from keras_gpukit.records.run import RunSummary
from keras_gpukit.records.steps import Progress
from keras_gpukit.reports import phrases, units
from keras_gpukit.reports.evidence import capitalized
from keras_gpukit.rules.input.input_bound import FROM_PROFILE
from keras_gpukit.rules.verdict import ENDED_BY
from keras_gpukit.rules.whole_run.capture_triggers import CPU_AFTER_S, MOST_COMPUTES
from keras_gpukit.rules.whole_run.endings import doing

_RUNS_LISTED = 3
NOTHING_FOUND = "Nothing was found that slows this run down."
ACCOUNT_OF_TIME = "low-compute-share"
"""Code of the rule that accounts for all of a run's time."""
LEAST_LOOP_S = 5.0
"""Least time of the steps of an own loop that is said not to be looked into; our choice."""


def worst(summary: RunSummary) -> Finding | None:
    """Returns the finding that is the run's verdict; None if there are only remarks.

    A short run in which compute took less than half of the time is not called healthy either.
    """
    for finding in summary.findings:
        if finding.severity != "info" or finding.code == ACCOUNT_OF_TIME:
            return summary.findings[0]
    return None


def all_well(summary: RunSummary) -> str:
    """Returns a sentence with the verdict on a run without a problem.

    A run whose speed could not be judged is not called free of problems.
    """
    if summary.ending == "interrupted":
        return "The run was interrupted."
    is_profile = summary.input is not None and summary.input.mechanism == FROM_PROFILE
    too_short = summary.verdict.too_short
    if is_judged(summary) and is_profile:
        return "Nothing was found that slows the captured steps down."
    if is_judged(summary) and _is_short(summary):
        lasted = f" in {units.duration(summary.breakdown.wall_s)}" if summary.breakdown else ""
        waited = phrases.input_share(summary)
        seen = f": {waited} waiting" if waited else ""
        return f"No problem seen{lasted}{seen}. Train longer to be sure."
    if is_judged(summary):
        return unseen_compute(summary) or NOTHING_FOUND
    if "input-bound" in too_short:
        return f"Too short to judge: {one_line(too_short['input-bound'])}."
    because = one_line(summary.verdict.not_applicable["input-bound"])
    return f"This {'profile' if is_profile else 'run'} could not be judged: {because}."


def _is_short(summary: RunSummary) -> bool:
    """Whether a run ended before its time, or what its steps compute, could be looked into."""
    parts = summary.breakdown
    ended_early = parts is not None and parts.wall_s < CPU_AFTER_S and summary.profile is None
    is_unseen = ended_early and unseen_compute(summary) is not None
    return ACCOUNT_OF_TIME in summary.verdict.too_short or is_unseen


def is_judged(summary: RunSummary) -> bool:
    """Whether the wait for input or the parts of the time could be judged."""
    return not {"input-bound", ACCOUNT_OF_TIME} <= summary.verdict.not_applicable.keys()


def see_more(summary: RunSummary, again: str | None = None) -> str | None:
    """Returns the advice to a run that was too short, or whose compute was not looked into.

    `again` is the command that runs its script with a profile, if that is known.
    """
    judged = is_judged(summary)
    if _is_short(summary) or (not judged and "input-bound" in summary.verdict.too_short):
        are_several = summary.script is not None and summary.script.fits > 1
        return f"{'Let one fit train' if are_several else 'Train'} for 10 s and 100 steps or more."
    can_profile = summary.breakdown is not None and summary.profile is None
    if not (can_profile and judged and unseen_compute(summary)):
        return None
    by = "he callback keras_gpukit.Profiler()"
    by = f"{again}, or t{by}," if again else f"T{by}"
    return f"{by} shows what the steps compute, by layer."


def unseen_compute(summary: RunSummary) -> str | None:
    """Returns a sentence if most of a run was compute and none of its profiles was read.

    Nothing found then means little: only the time around compute was looked at.
    """
    parts = summary.breakdown
    if parts is None:
        return _of_own_loop(summary)
    share = (parts.compute_s or 0.0) / parts.wall_s if parts.wall_s else 0.0
    if share < MOST_COMPUTES:
        return None
    if summary.profile is not None:
        return _between_operations(summary.profile)
    because = _unread_because(summary)
    said = f"{units.percentage(share)} of the time is compute, which was not looked into"
    return f"{said}: {one_line(because)}." if because else f"{said}."


def _of_own_loop(summary: RunSummary) -> str | None:
    """Returns a sentence on a loop of the script's own, whose steps were not looked into."""
    steps, record = summary.throughput, summary.input
    is_monitored = summary.overhead_s is not None
    if is_monitored or steps is None or steps.step_time_s is None or summary.profile is not None:
        return None
    computing_s = steps.steps * steps.step_time_s * (1 - ((record and record.stall_fraction) or 0))
    if computing_s < LEAST_LOOP_S:
        return None
    took = f"{steps.steps:,} steps took {units.duration(computing_s)} without the wait for data"
    return f"{took}; what they compute was not looked into."


def _between_operations(profile: ProfileRecord) -> str | None:
    """Returns a sentence if most of a captured step passes between its operations."""
    if profile.between_fraction < MOST_COMPUTES:
        return None
    many = round(sum(layer.kernels for layer in profile.layers))
    return (
        f"{units.percentage(profile.between_fraction)} of a captured step passes between its "
        f"{many:,} operations, which are small; `compile(jit_compile=True)` may join them, as "
        "`keras-gpukit tune` tries."
    ).replace("`", "")


def _unread_because(summary: RunSummary) -> str | None:
    record = summary.captures
    if record is None:
        return "without a log directory, no profile is captured"
    for capture in record.captures:
        because = capture.failed_because or capture.unread_because
        if because is not None:
            return because
    if record.captures:
        return "the run read none of its profiles"
    missed = next((miss.because for miss in record.missed), None)
    return missed or record.none_automatic_because or record.unknown_because


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
    found = worst(summary)
    if found is not None:
        return Headline(found.severity, found.title, found)
    if not (verdict.findings or verdict.passed or verdict.not_applicable):
        return Headline("unknown", "Not judged: the run has no figures to judge by.")
    # Finding nothing is no good news if the run's time is not accounted for.
    is_unclear = ACCOUNT_OF_TIME in verdict.not_applicable or unseen_compute(summary)
    severity = "unknown" if is_unclear or summary.ending == "interrupted" else "good"
    return Headline(severity, all_well(summary))


def verdict_lines(report: Report) -> list[str]:
    """Returns a line on each of the newest runs, and how many more there are.

    Of workers that were compared, only the chief's run has one.
    """
    compared = {run.folder for run in report.runs if run.summary.workers is not None}
    listed = [run for run in report.runs if run.folder not in compared or run.is_chief]
    lines = [units.printable(f"{run.name}: {verdict_line(run)}") for run in listed]
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
        None if end is None else f"{capitalized(end)}.",
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
    found = worst(summary)
    if found is not None:
        lines.append(f"So far: {found.title} ({found.code})")
        lines += [f"Next: {advice}" for advice in found.advice[:1]]
    return "\n".join(map(units.printable, lines))


STATES: dict[State, str] = {
    "completed": "completed",
    "interrupted": "interrupted",
    "running": "running",
    "unfinished": "end unknown",
}


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
