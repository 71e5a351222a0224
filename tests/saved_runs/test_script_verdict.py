"""Which run stands for its script."""

from __future__ import annotations

from dataclasses import replace

from helpers.recorded_runs import run_lines, write_lines

from keras_gpukit.saved_runs import load_report
from keras_gpukit.saved_runs.script_verdict import main_run


def test_a_folder_above_gives_the_same_verdicts(tmp_path):
    for name in ("before/train-1", "after"):
        recorded(tmp_path / name)
    found = [[each.title for each in run.summary.findings] for run in load_report(tmp_path).runs]
    assert [TITLE in titles for titles in found] == [True, True]


def test_of_several_runs_the_longest_stands_for_the_script(tmp_path):
    write_lines(tmp_path, run_lines())
    (run,) = load_report(tmp_path).runs
    short = replace(run, ended_s=run.began_s + 5)
    assert main_run([short, run]) == (run, "longest")
    unfinished = replace(run, state="unfinished", ended_s=run.ended_s + 100)
    assert main_run([unfinished, short]) == (short, "longest that ended")
