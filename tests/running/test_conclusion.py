"""What is said when a script ends: also from elsewhere, to nobody, and of forks."""

from __future__ import annotations

import io
import os
import sys
import time

import pytest
from helpers.recorded_runs import BEGAN_S, run_lines, write_lines

from keras_gpukit.records.steps import Progress
from keras_gpukit.running.conclusion import REPORT, Conclusion
from keras_gpukit.running.run_folder import RunFolder
from keras_gpukit.running.watched_fits import WatchedFits


@pytest.fixture
def folder(tmp_path):
    return RunFolder(tmp_path / "logs", "train")


def conclusion(folder: RunFolder, monkeypatch) -> Conclusion:
    """Of a script that was started when the made-up runs were."""
    with monkeypatch.context() as patched:
        patched.setattr(time, "time", lambda: 0.0)
        return Conclusion(WatchedFits(folder), folder, opens=False)


def test_paths_are_told_from_where_the_script_was_started(tmp_path, monkeypatch, folder):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    told = conclusion(folder, monkeypatch)
    write_lines(folder.path() / "net", run_lines())
    os.chdir(tmp_path / "logs")
    told.tell()
    said = sys.stderr.getvalue()
    assert f"Report: {os.path.join('logs', folder.path().name, REPORT)}\n" in said


def test_the_report_is_written_where_nobody_reads_what_is_printed(monkeypatch, folder):
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    told = conclusion(folder, monkeypatch)
    write_lines(folder.path() / "net", run_lines())
    sys.stderr.close()
    told.tell()
    assert (folder.path() / REPORT).is_file()


def test_the_verdict_is_that_of_a_run_that_ended(monkeypatch, folder):
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    told = conclusion(folder, monkeypatch)
    write_lines(folder.path() / "killed", run_lines(90, summary=None))
    write_lines(folder.path() / "again", run_lines(60))
    told.tell()
    assert "2 fits were monitored; the longest that ended is" in sys.stderr.getvalue()
    assert "again:" in sys.stderr.getvalue()


def test_what_ended_the_script_comes_first(monkeypatch, folder):
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    told = conclusion(folder, monkeypatch)
    write_lines(folder.path() / "earlier", run_lines())
    monkeypatch.setattr("keras_gpukit.running.conclusion.failures", ["KeyError (a.py:3) ended it"])
    told.tell()
    assert sys.stderr.getvalue().startswith("keras-gpukit run: KeyError (a.py:3) ended it\n")


def test_a_last_fit_that_failed_is_shown_and_not_the_longest(monkeypatch, folder):
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    told = conclusion(folder, monkeypatch)
    write_lines(folder.path() / "longest", run_lines(90))
    at = Progress("fit", "steps", 1000, 1, 3)
    lines = run_lines(60, summary=None, began_s=BEGAN_S + 100)
    write_lines(folder.path() / "failed", [*lines, (BEGAN_S + 160, 1000, "progress", at)])
    told.tell()
    assert "the last is" in sys.stderr.getvalue()
    assert "keras_gpukit, run killed" in sys.stderr.getvalue()
    assert "The process was killed while training" in sys.stderr.getvalue()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no forks")
def test_what_forks_recorded_is_reported_by_the_script(tmp_path, monkeypatch, folder):
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    told = conclusion(folder, monkeypatch)
    for name in ("first", "second"):
        if (child := os.fork()) == 0:
            write_lines(folder.path() / name, run_lines())
            os._exit(0)
        os.waitpid(child, 0)
    told.tell()
    assert "2 fits were monitored" in sys.stderr.getvalue()
    assert [each.name for each in (tmp_path / "logs").iterdir()] == [folder.path().name]
