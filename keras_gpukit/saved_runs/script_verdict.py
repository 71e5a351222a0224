"""The verdict on a whole script, for panel and page alike: that of the run that stands for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from keras_gpukit.records.report import RunReport
from keras_gpukit.records.script import ScriptRecord
from keras_gpukit.rules import judge_run
from keras_gpukit.rules.verdict import ENDED_BY


def fits_of(runs: Sequence[RunReport]) -> Sequence[RunReport]:
    """Returns the runs without those of workers that have a chief."""
    return [run for run in runs if run.is_chief] or runs


def main_run(runs: Sequence[RunReport]) -> tuple[RunReport, str]:
    """Returns the run that stands for a script, and which of its runs that is, in words.

    Args:
        runs: Runs of one script, the newest first; at least one.
    """
    fits = fits_of(runs)
    if any(each.code in ENDED_BY for each in fits[0].summary.findings):
        return fits[0], "last"
    # A process that was killed and restarted has left an unfinished run.
    ended = [run for run in fits if run.state != "unfinished"] or fits
    longest = max(ended, key=lambda run: (run.ended_s or 0.0) - (run.began_s or 0.0))
    return longest, "longest" if len(ended) == len(fits) else "longest that ended"


def within_script(script: ScriptRecord, runs: Sequence[RunReport]) -> list[RunReport]:
    """Judges the runs of a script again, by what is known of all of it.

    Findings on the script itself are in the verdict on its main run only.
    """
    if not runs:
        return []
    main, _ = main_run(runs)
    newest = fits_of(runs)[0].summary.memory
    judged = []
    for run in runs:
        summary = run.summary
        if run is main:
            # The newest fit has the readings of memory after all fits of the process.
            if summary.memory is not None and newest is not None:
                summary = replace(summary, memory=replace(summary.memory, fits=newest.fits))
            summary = judge_run(replace(summary, script=script))
        else:
            summary = judge_run(summary, within=script)
        judged.append(replace(run, summary=summary))
    return judged
