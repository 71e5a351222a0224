"""Notes on the state of runs that are in progress or ended early."""

from __future__ import annotations

from keras_gpukit.records.report import RunReport
from keras_gpukit.reports import units
from keras_gpukit.reports.html.words import moment
from keras_gpukit.rules.whole_run.endings import doing


def state_note(run: RunReport) -> str | None:
    """Returns a note on a run that is in progress or ended early; None if it completed."""
    if run.state == "completed":
        return None
    if run.state == "interrupted":
        what = run.summary.ended_by or "An exception or interrupt"
        ended = _join(f"{what} ended the run", _after(run), _where(run))
        return f"{ended}.{_hang(run)} The page shows what was measured until then."
    if run.state == "running":
        now = doing(run.progress) if run.progress else "its first step has not started"
        return (
            f"Running for {_lasted(run)}: {now}.{_hang(run)} The pipeline's stages and the parts "
            "of the wall time are updated less often than the charts."
        )
    seen = _join(f"It was last alive at {moment(run.ended_s)}", _after(run), _where(run))
    return (
        "The run wrote no summary: its process was killed, or it had no Monitor. "
        f"{seen}.{_hang(run)} The page shows what was recorded until then."
    )


def _hang(run: RunReport) -> str:
    if run.hang is None or run.hang.lasted_s is not None:
        return ""
    return f" No step has ended since {moment(run.hang.began_s)}: {run.hang.activity}."


def _where(run: RunReport) -> str | None:
    return None if run.progress is None else f"while {doing(run.progress)}"


def _after(run: RunReport) -> str | None:
    return None if run.began_s is None else f"{_lasted(run)} after it began"


def _lasted(run: RunReport) -> str:
    if run.began_s is None or run.ended_s is None:
        return "an unknown time"
    return units.duration(max(run.ended_s - run.began_s, 0.0))


def _join(*parts: str | None) -> str:
    return ", ".join(part for part in parts if part)
