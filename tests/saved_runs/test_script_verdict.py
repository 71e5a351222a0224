"""A script's verdict is the same in a report, on its page and in its panel."""

from __future__ import annotations

from dataclasses import replace

import msgspec
from helpers.recorded_runs import run_lines, write_lines
from rich.console import Console

from keras_gpukit.records import Calls, LineTime, ScriptRecord
from keras_gpukit.reports.console import print_summary
from keras_gpukit.reports.html import render
from keras_gpukit.saved_runs.log_folder import load_report, main_run

ADAPT = LineTime("train.py:31", "<module>", "TextVectorization.adapt", "text.adapt(rows)", 250.0)
SCRIPT = ScriptRecord(400.0, 9.0, 30.0, (Calls("fit", "train.py:45", 1, 61.0),), (ADAPT,), ())
TITLE = "250 of 400 s passed before fit, in text.adapt(rows) (train.py:31)"


def recorded(folder, script=SCRIPT):
    write_lines(folder, run_lines())
    (folder / "gpukit" / "script.json").write_bytes(msgspec.json.encode(script))
    return load_report(folder)


def test_what_passed_outside_fit_is_in_report_page_and_panel(tmp_path):
    report = recorded(tmp_path)
    run, which = main_run(report.runs)
    assert which == "longest"
    assert TITLE in [each.title for each in run.summary.findings]
    assert TITLE in render(report)
    console = Console(width=200, record=True)
    print_summary(run.summary, console)
    assert TITLE.partition(", in")[0] in " ".join(console.export_text().split())


def test_a_folder_above_gives_the_same_verdicts(tmp_path):
    for name in ("before/train-1", "after"):
        recorded(tmp_path / name)
    found = [[each.title for each in run.summary.findings] for run in load_report(tmp_path).runs]
    assert [TITLE in titles for titles in found] == [True, True]


def test_of_several_runs_the_longest_stands_for_the_script(tmp_path):
    (run,) = recorded(tmp_path).runs
    short = replace(run, ended_s=run.began_s + 5)
    assert main_run([short, run]) == (run, "longest")
    unfinished = replace(run, state="unfinished", ended_s=run.ended_s + 100)
    assert main_run([unfinished, short]) == (short, "longest that ended")
