"""Runs without a summary, in progress or killed: what they were doing, and what limited them."""

import gzip
import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from helpers.recorded_runs import BEGAN_S, SUMMARY, only_run, run_lines

from keras_gpukit.records import Progress, RunHeader, TimeBreakdown
from keras_gpukit.reports.html import render
from keras_gpukit.reports.run_words import state_note, verdict_line
from keras_gpukit.rules.whole_run.endings import doing
from keras_gpukit.saved_runs.log_folder import LogFolder, load_report
from keras_gpukit.saved_runs.writing import run_log
from keras_gpukit.saved_runs.writing.run_log import own_identity

SO_FAR = replace(
    SUMMARY.input,
    wait_s=0.5,
    stall_fraction=0.9,
    breakdown=TimeBreakdown(30.0, 11.0, 15.0, 1.0, 1.0, 2.0, 0.0, 0.0),
)


def killed(seconds: int, *more):
    """A run that wrote windows of 40 steps for so long, and then nothing more."""
    lines = run_lines(seconds, summary=None)
    return sorted([*lines, *more], key=lambda line: line[0])


def progress(second: float, part: str, step: int, epoch: int | None = 1):
    return (BEGAN_S + second, step, "progress", Progress("fit", part, step, epoch, 3, 1000))


def noted(second: float, record=SO_FAR):
    return (BEGAN_S + second, None, "input", record)


def test_a_killed_run_names_the_stage_that_it_noted(tmp_path):
    run = only_run(tmp_path, killed(20, noted(4, replace(SO_FAR, pipeline=None)), noted(12)))
    assert run.state == "unfinished"
    (worst, *_) = run.summary.findings
    assert worst.title.endswith(
        "of the time is spent waiting for data: the bottleneck is decode (train.py:12)"
    )
    assert run.summary.breakdown == SO_FAR.breakdown
    # The figures of its steps are those of all its windows, and not of the last note.
    assert run.summary.input_stall_fraction == pytest.approx(0.4)
    assert run.summary.input_wait_s == pytest.approx(0.0115, rel=0.05)


def test_a_run_so_far_keeps_the_reason_and_judges_no_unknown_wait(tmp_path):
    def with_other(lines, kind, **fields):
        return [(*a, k, replace(r, **fields) if k == kind else r) for *a, k, r in lines]

    unknown = replace(SO_FAR, wait_s=None, stall_fraction=None, unknown_because="autotuning is off")
    without = with_other(killed(20, noted(4, unknown)), "steps", input_wait_s=None)
    summary = only_run(tmp_path / "one", without).summary
    assert summary.input.unknown_because == "autotuning is off"
    # There is no note yet of how the wait is measured.
    several = with_other(killed(20), "environment", steps_per_execution=2)
    verdict = only_run(tmp_path / "two", several).summary.verdict
    assert "upper bound" in verdict.not_applicable["input-bound"]


def test_a_killed_run_says_when_it_was_alive_how_long_and_at_what(tmp_path):
    parts = progress(1, "first step", 0), progress(13, "steps", 520, epoch=2)
    run = only_run(tmp_path, killed(20, *parts))
    assert run.progress == Progress("fit", "steps", 800, 2, 3, 1000)  # as of the last window
    assert run.summary.first_step_s is None  # it got past its first step
    note = state_note(run)
    assert "last alive at 2023-11-1" in note
    assert ", 20 s after it began, while training, at step 800 in epoch 2 of 3." in note
    assert note in render(load_report(tmp_path), plotly_src="plotly.js")


def test_a_run_killed_while_xla_compiled_its_first_step_says_so(tmp_path):
    # Recorded on an H100: ResNet50 with `jit_compile="auto"`.
    recorded = Path(__file__).with_name("killed_in_first_step.jsonl.gz").read_bytes()
    (tmp_path / "gpukit").mkdir()
    (tmp_path / "gpukit" / "run.jsonl").write_bytes(gzip.decompress(recorded))
    run = only_run(tmp_path)
    assert (run.phase, run.summary.steps) == ("fit", None)
    assert "in its first step, which fetches a batch, traces and compiles." in state_note(run)
    killed = "critical: The process was killed while in its first step, which fetches a batch"
    assert verdict_line(run).startswith(killed)
    seen = (
        "No step has ended after 54 s: the first one is likely traced and compiled by XLA "
        "(jit_compile is on), as 1.6 cores are busy and the GPUs idle"
    )
    assert seen in render(load_report(tmp_path), plotly_src="plotly.js")
    _, found = run.summary.findings
    assert found.title == seen
    assert [each.partition("=")[0].split()[-1] for each in found.advice] == [
        "model.compile(jit_compile",
        "drop_remainder",
        "TF_XLA_FLAGS",
    ]


@pytest.fixture
def now(monkeypatch):
    """It is twenty seconds after the runs began."""
    monkeypatch.setattr(time, "time", lambda: BEGAN_S + 20)


def test_a_run_in_its_first_step_is_judged_as_it_goes_on(tmp_path, now):
    parts = [progress(second, "first step", 0) for second in (3, 13)]
    lines = killed(20, progress(1, "callbacks", 0), *parts)
    run = only_run(tmp_path, [line for line in lines if line[2] not in ("steps", "host", "gpu")])
    assert run.state == "running"
    assert run.summary.first_step_s == pytest.approx(17)
    assert "warning: No step has ended after 17" in verdict_line(run)


@pytest.mark.parametrize(
    ("progress", "words"),
    [
        (Progress("fit", "steps", 7, 2, 3), "training, at step 7 in epoch 2 of 3"),
        (Progress("fit", "validation", 7, 2, 3), "validating after step 7, in epoch 2 of 3"),
        (Progress("fit", "callbacks", 7, 2, 3), "in callbacks, after step 7, in epoch 2 of 3"),
        (
            Progress("fit", "epoch start", 7, 2, 3),
            "starting the input pipeline of epoch 2 of 3, after step 7",
        ),
        (
            Progress("fit", "first step", 7, 2, 3),
            "in its first step, which fetches a batch, traces and compiles",
        ),
        (Progress("fit", "other", 7, 2, 3), "at the end of epoch 2 of 3, after step 7"),
        (Progress("predict", "steps", 7), "predicting, at step 7"),
        (Progress("evaluate", "steps", 7), "evaluating, at step 7"),
        (
            Progress("evaluate", "epoch start", 0),
            "starting the input pipeline of its data, after step 0",
        ),
    ],
)
def test_every_part_of_a_run_has_its_words(progress, words):
    assert doing(progress) == words


def test_a_run_in_progress_says_where_it_is_and_names_the_stage(tmp_path, now):
    run = only_run(tmp_path, killed(20, progress(15, "steps", 600, 2), noted(5)))
    assert run.state == "running"
    assert state_note(run).startswith("Running for 20 s: training, at step 800 in epoch 2 of 3.")
    assert "decode" in run.summary.findings[0].title
    assert run.summary.throughput.wall_s == pytest.approx(20)


CHILD = """
import sys, time
from pathlib import Path
from keras_gpukit.saved_runs.writing.run_log import RunLog

log = RunLog(Path(sys.argv[1]))
log.close()
print("ready", flush=True)
time.sleep(60)
"""


def started(folder):
    """A process that has started a record, and lives on."""
    process = subprocess.Popen([sys.executable, "-c", CHILD, str(folder)], stdout=subprocess.PIPE)
    assert process.stdout.readline() == b"ready\n"
    return process


@pytest.mark.parametrize("is_reaped", [True, False])
def test_a_run_whose_process_was_killed_is_unfinished_at_once(tmp_path, is_reaped):
    with started(tmp_path) as process:
        folder = LogFolder(tmp_path)
        assert folder.report().runs[0].state == "running"
        process.kill()
        if is_reaped:
            process.wait()
        else:
            os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert folder.report().runs[0].state == "unfinished"
        assert only_run(tmp_path).state == "unfinished"


@pytest.mark.parametrize(
    ("change", "state"),
    [
        ({}, "running"),
        ({"started": 1}, "unfinished"),  # another process has its number
        ({"pid": 2**22 + 1}, "unfinished"),  # more than Linux gives
        ({"pid": 2**22 + 1, "place": "node-7 0d3f pid:[4026531836]"}, "running"),
        ({"pid": 1}, "unfinished"),
        ({"pid": 0}, "running"),
        ({"pid": 2**80}, "running"),
    ],
)
def test_a_process_counts_as_ended_only_where_its_number_is_known(tmp_path, change, state, now):
    process = replace(own_identity(), **change)
    began_s, step, kind, _ = killed(20)[0]
    header = began_s, step, kind, RunHeader(1, BEGAN_S, process=process)
    assert only_run(tmp_path, [header, *killed(20)[1:]]).state == state


@pytest.mark.parametrize("file", ["_BOOT", "_NAMESPACE"])
def test_a_system_that_does_not_identify_its_processes_is_not_asked(tmp_path, monkeypatch, file):
    identity = own_identity()
    monkeypatch.setattr(run_log, file, str(tmp_path / "none"))
    assert own_identity() is None
    assert not run_log.has_ended(replace(identity, pid=2**22 + 1))


def test_notes_change_no_summary_and_a_record_without_them_says_when_it_was_alive(
    tmp_path,
):
    noted_lines = killed(20, progress(3, "steps", 9), noted(4))
    over = [*noted_lines, *run_lines(20)[-1:], progress(22, "callbacks", 800)]
    run = only_run(tmp_path / "over", over)
    assert run.summary == SUMMARY
    assert state_note(run) is None
    run = only_run(tmp_path / "old", killed(20))
    assert run.progress is None
    assert "20 s after it began. The page" in state_note(run)
    assert "decode" not in run.summary.findings[0].title
