"""A verdict in one line: it says how a run ended."""

from dataclasses import replace

import pytest
from helpers.recorded_runs import ENVIRONMENT, SUMMARY

from keras_gpukit.records import Progress, RunReport, RunSummary, Verdict
from keras_gpukit.reports.run_words import NOTHING_FOUND, verdict_line

WORST = (
    "critical: 38 % of the time is spent waiting for data: the bottleneck is decode (train.py:12)"
)
AT = Progress("fit", "steps", 1800)
PASSED = ("input-bound", "slow-callbacks")
UNJUDGED = ("low-utilization", "memory-nearly-full", "throttled")


def line(state, progress=AT, **summary):
    verdict = Verdict((), PASSED, dict.fromkeys(UNJUDGED, "no GPU"))
    result = RunSummary(ENVIRONMENT, verdict=verdict, **summary)
    return verdict_line(RunReport("logs", state, summary=result, progress=progress))


@pytest.mark.parametrize(
    ("state", "summary", "result"),
    [
        ("completed", {"ending": "completed"}, NOTHING_FOUND),
        (
            *("unfinished", {}),
            "Ended without a summary after step 1,800 (killed, or without a Monitor). "
            f"{NOTHING_FOUND}",
        ),
        ("running", {}, f"Still running after step 1,800. {NOTHING_FOUND}"),
        (
            *("interrupted", {"ended_by": "KeyboardInterrupt in step 5"}),
            "Interrupted by KeyboardInterrupt in step 5.",
        ),
        ("interrupted", {}, "Interrupted after step 1,800."),
        ("interrupted", {"progress": None}, "Interrupted."),
    ],
)
def test_a_run_without_a_finding_says_how_it_ended(state, summary, result):
    ending = {"ending": "interrupted"} if state == "interrupted" else {}
    assert line(state, **{**ending, **summary}) == result


def test_a_finding_comes_first_and_the_end_after_it():
    assert verdict_line(RunReport("logs", "completed", summary=SUMMARY)) == WORST
    killed = RunReport("logs", "unfinished", summary=replace(SUMMARY, ending=None), progress=AT)
    ended = "ended without a summary after step 1,800 (killed, or without a Monitor)"
    assert verdict_line(killed) == f"{WORST}; {ended}"
    # One that names the end does not say it twice.
    (worst, *_) = SUMMARY.verdict.findings
    worst = replace(worst, code="ended-by-error", title="ValueError in step 1 ended the run")
    summary = replace(
        SUMMARY, verdict=Verdict((worst,)), ending="interrupted", ended_by="ValueError in step 1"
    )
    assert verdict_line(RunReport("logs", "interrupted", summary=summary)) == (
        "critical: ValueError in step 1 ended the run"
    )
