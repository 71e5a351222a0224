"""What is printed when a script ends: also from elsewhere, without a reader, and of forks."""

import io
import os
import sys
import time
from dataclasses import replace

import pytest
from helpers.recorded_runs import BEGAN_S, SUMMARY, run_lines, write_lines

from keras_gpukit.records import Calls, Progress, ScriptError, ScriptRecord, TimeBreakdown
from keras_gpukit.reports.phrases import account
from keras_gpukit.rules import judge
from keras_gpukit.saved_runs.log_folder import load_report
from keras_gpukit.scripts.conclusion import REPORT, Conclusion
from keras_gpukit.scripts.run_folder import RunFolder
from keras_gpukit.scripts.watched_fits import WatchedFits


@pytest.fixture
def folder(tmp_path):
    return RunFolder(tmp_path / "logs", "train")


TRACED = {"models": 14, "traced_again": 13, "traced_again_s": 20.0, "tracing_cpu_s": 16.0}
FOLDS = Calls("fit", "train.py:27", 14, 31.0, 22.0, 14 * 24, **TRACED)


def made(folder: RunFolder, monkeypatch, *calls: Calls) -> Conclusion:
    """Of a script that was started when the made-up runs were, and that made calls."""
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    fits = WatchedFits(folder)
    monkeypatch.setattr(
        fits.calls,
        "script_record",
        lambda began_s, imports_s: ScriptRecord(48.0, imports_s, 2.0, calls),
    )
    with monkeypatch.context() as patched:
        patched.setattr(time, "time", lambda: 0.0)
        return Conclusion(fits, folder, opens=False, imports_s=(lambda: 9.0) if calls else None)


def test_the_verdict_is_that_of_a_run_that_ended_and_paths_are_from_where_the_script_started(
    tmp_path, monkeypatch, folder
):
    monkeypatch.chdir(tmp_path)
    conclusion = made(folder, monkeypatch)
    write_lines(folder.path() / "killed", run_lines(90, summary=None))
    write_lines(folder.path() / "again", run_lines(60))
    os.chdir(tmp_path / "logs")
    printed = told(conclusion)
    assert "2 fits were monitored; the longest that ended is" in printed
    assert "again:" in printed
    assert "keras-gpukit, again ─" in printed  # the panel says which fit it is about
    assert f"Report: {os.path.join('logs', folder.path().name, REPORT)}\n" in printed


def told(conclusion: Conclusion) -> str:
    """What is printed as the script ends."""
    conclusion.report()
    return sys.stderr.getvalue()


def test_the_report_is_written_where_nothing_reads_what_is_printed(monkeypatch, folder):
    conclusion = made(folder, monkeypatch)
    write_lines(folder.path() / "net", run_lines())
    sys.stderr.close()
    conclusion.report()
    assert (folder.path() / REPORT).is_file()


def test_what_ended_the_script_comes_first(monkeypatch, folder):
    conclusion = made(folder, monkeypatch, FOLDS)
    write_lines(folder.path() / "earlier", run_lines())
    error = ScriptError("KeyError", "'x'", "a.py:3")
    monkeypatch.setattr("keras_gpukit.scripts.conclusion.failures", [error])
    assert "│ Verdict KeyError (a.py:3) ended the script: 'x'" in told(conclusion)


def test_a_last_fit_that_failed_is_shown_and_not_the_longest(monkeypatch, folder):
    conclusion = made(folder, monkeypatch)
    write_lines(folder.path() / "longest", run_lines(90))
    at = Progress("fit", "steps", 1000, 1, 3)
    lines = run_lines(60, summary=None, began_s=BEGAN_S + 100)
    write_lines(folder.path() / "failed", [*lines, (BEGAN_S + 160, 1000, "progress", at)])
    printed = told(conclusion)
    assert "the last is" in printed
    assert "keras-gpukit, run killed" in printed
    assert "The process was killed while training" in printed


def test_a_script_of_many_fits_gets_one_verdict_over_all_of_them(monkeypatch, folder):
    conclusion = made(folder, monkeypatch, FOLDS)
    for name in ("first", "second"):
        write_lines(folder.path() / name, run_lines())
    printed = told(conclusion)
    assert "2 of 14 fits were monitored; the longest is" in printed
    took = "The script took 48 s: imports 9 s, before the first call 2 s, 14 fits 31 s (22 s"
    assert printed.splitlines()[-1].startswith(took)
    first_finding = next(line for line in printed.splitlines() if line.startswith("│ Verdict"))
    assert "14 new models were traced by fit (train.py:27)" in first_finding
    page = (folder.path() / REPORT).read_text(encoding="utf-8")
    assert page.index("2 runs compared") < page.index("The whole script")  # as in the terminal
    script = load_report(folder.path()).script
    assert replace(script, before=(), rest=()) == ScriptRecord(48.0, 9.0, 2.0, (FOLDS,))


def test_remarks_on_each_of_many_fits_are_not_listed(monkeypatch, folder):
    conclusion = made(folder, monkeypatch)
    mostly_first_step = TimeBreakdown(20.0, 0.0, 3.0, 0.1, 0.1, 16.0, 0.0, 0.5)
    record = replace(SUMMARY.input, stall_fraction=0.0, breakdown=mostly_first_step)
    short = replace(SUMMARY, operations=None, input=record)
    write_lines(folder.path() / "long", run_lines(90))
    lines = run_lines(20, summary=replace(short, verdict=judge(short)))
    for fold in range(6):
        write_lines(folder.path() / f"fold-{fold}", lines)
    printed = told(conclusion)
    assert "7 fits were monitored" in printed
    assert "fold-" not in printed.partition("Report:")[0]


def test_a_script_without_fits_gets_a_verdict_on_its_predictions(monkeypatch, folder):
    scores = Calls("predict", "serve.py:9", 1000, 30.0, 20.0, 1000, repeated_s=25.0)
    printed = told(made(folder, monkeypatch, scores))
    assert "1,000 predictions 30 s (20 s of it to start)" in printed
    assert "1,000 calls of predict (serve.py:9) for one batch each" in printed
    assert not folder.is_made


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no forks")
def test_what_forks_recorded_is_reported_by_the_script(tmp_path, monkeypatch, folder):
    conclusion = made(folder, monkeypatch)
    for name in ("first", "second"):
        if (child := os.fork()) == 0:
            write_lines(folder.path() / name, run_lines())
            os._exit(0)
        os.waitpid(child, 0)
    assert "2 fits were monitored" in told(conclusion)
    assert [each.name for each in (tmp_path / "logs").iterdir()] == [folder.path().name]


def test_calls_for_one_batch_are_steps_and_without_any_call_the_time_is_the_scripts_own():
    steps = ScriptRecord(48.0, 9.0, 9.0, (Calls("train_on_batch", "gan.py:9", 600, 30.0),))
    assert "600 calls of train_on_batch (50 ms each) 30 s" in account(steps)
    alone = account(ScriptRecord(48.0, 9.0, 39.0))
    assert alone.endswith("imports 9 s, the script's own code 39 s")
