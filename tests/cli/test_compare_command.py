"""`keras-gpukit compare`: text, exit codes, JUnit, JSON and Markdown."""

import json
import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest
from helpers.json_output import valid_json
from helpers.processes import environment
from helpers.recorded_runs import DECODE, READ, SUMMARY, run_lines, write_lines
from helpers.summaries import series_of_points

from keras_gpukit.cli.main import main
from keras_gpukit.records import STEP_TIME, PipelineRecord, RunComparison, from_dict

SLOWER = replace(DECODE, parallelism=1, cost_per_batch_s=0.04)


def summary(step_ms: float, *stages, steps_ms=None, **more):
    steps_ms = steps_ms or [step_ms + 0.1 * (place % 3) for place in range(20)]
    speed = {"step_time_s": step_ms / 1e3, "examples_per_s": 32e3 / step_ms}
    return replace(
        SUMMARY,
        series=(series_of_points(STEP_TIME, steps_ms),),
        throughput=replace(SUMMARY.throughput, **speed),
        input=replace(SUMMARY.input, pipeline=PipelineRecord(stages, stages[0])),
        memory=None,
        **more,
    )


def write(folder: Path, *made, **more) -> Path:
    return write_lines(folder, run_lines(2, summary=summary(*made)), **more)


@pytest.fixture
def shown(capsys):
    """Returns what was printed since, its lines joined."""
    return lambda: " ".join(capsys.readouterr().out.split())


@pytest.fixture
def logs(tmp_path, monkeypatch):
    """Three runs: `main`, its repetition `again`, and `branch`, a quarter slower."""
    monkeypatch.chdir(tmp_path)
    runs = {"main": (25.0, DECODE, READ), "again": (25.2, DECODE, READ), "branch": (31.0, SLOWER)}
    for name, made in runs.items():
        write(tmp_path / "logs" / name, *made)
    return tmp_path


def compare(a: str, b: str, *options: str) -> int:
    return main(["compare", f"logs/{a}", f"logs/{b}", *options])


def test_a_slower_run_is_said_with_its_interval_and_what_differs(logs, capsys):
    assert compare("main", "branch") == 0
    text = capsys.readouterr().out
    assert text.startswith("branch is 1.24× slower than main: step time 25 ms → 31 ms (95 %")
    assert "- decode (train.py:12): 2 parallel → 1 parallel\n" in text
    assert "- decode (train.py:12): 16 ms → 40 ms per batch\n" in text
    assert "parallel 2 → 1" in text
    assert "No recorded setting differs; 1" in text
    assert compare("main", "branch", "--markdown") == 0
    text = capsys.readouterr().out
    assert text.startswith("**branch is 1.24× slower than main: step time ")
    assert "| decode | 16 ms, 2 parallel, train.py:12, bottleneck | 40 ms" in text


def test_equal_runs_pass_and_a_slower_one_fails_the_build(logs, shown):
    assert compare("main", "again", "--fail-on", "step_time>+10%") == 0
    text = shown()
    assert text.startswith("No difference outside the noise: step time 25 ms → 25.2 ms (")
    assert "passed: step_time>+10%: +0.8 % (-" in text
    conditions = ("--fail-on", "peak_memory>+5%", "--fail-on", "step_time>+10%")
    assert compare("main", "branch", *conditions) == 1
    text = shown()
    assert "failed: step_time>+10%: +23.9 % (+1" in text
    assert "unknown: peak_memory>+5%: peak_memory is not known for main and branch" in text
    # An unknown figure has an exit code of its own.
    assert compare("main", "branch", "--fail-on", "peak_memory>+5%") == 3
    write_lines(logs / "logs" / "short", run_lines(2))
    assert compare("main", "short", "--fail-on", "step_time>+5%") == 3
    text = shown()
    assert "too few windows" in text
    assert "upper bound" not in text


def test_a_change_that_may_be_larger_than_allowed_is_inconclusive(logs, shown):
    noisy = summary(42.0, DECODE, steps_ms=[25.0, 20.0, 60.0, 25.0, 20.0] * 4)
    write_lines(logs / "logs" / "noisy", run_lines(2, summary=noisy))
    condition = ("--fail-on", "step_time>+10%")
    assert compare("again", "noisy", *condition, "--junit", "compare.xml") == 0
    text = shown()
    assert text.startswith("Not distinguishable from noise: step time 25.2 ms → 42 ms (")
    assert "inconclusive: step_time>+10%: +" in text
    assert text.endswith("the change may be larger than allowed: repeat both runs in turn")
    [suite] = ElementTree.parse(logs / "compare.xml").getroot()
    assert (suite.get("failures"), suite.get("skipped"), suite[0][0].tag) == ("0", "1", "skipped")
    assert compare("again", "noisy", *condition, "--strict", "--json") == 3
    [found] = json.loads(shown())["conditions"]
    assert (found["is_met"], found["is_inconclusive"]) == (False, True)


def test_columns_are_titled_by_where_long_names_differ(logs, shown):
    names = "train-20261127-101010", "train-20261127-112020"
    for name in names:
        write(logs / "logs" / name, 25.0, DECODE)
    assert compare(*names) == 0
    assert "figure …101010 …112020 change" in shown()


def test_junit_has_a_test_case_for_each_condition(logs, capsys):
    conditions = ("step_time>+10%", "steps>+5%", "peak_memory>+5%")
    options = [word for each in conditions for word in ("--fail-on", each)]
    assert compare("main", "branch", *options, "--junit", "compare.xml") == 1
    [suite] = ElementTree.parse(logs / "compare.xml").getroot()
    counts = {name: suite.get(name) for name in ("tests", "failures", "errors")}
    assert counts == {"tests": "3", "failures": "1", "errors": "1"}
    assert tuple(case.get("name") for case in suite) == conditions
    failure, passed, error = (list(case) for case in suite)
    assert failure[0].get("message").startswith("failed: step_time>+10%: +23.9 %")
    assert "decode (train.py:12): 2 parallel → 1 parallel" in failure[0].text
    assert passed == []
    assert error[0].tag == "error"


def test_any_name_of_a_folder_is_shown_and_is_in_valid_xml(logs, capsys):
    write(logs / "logs" / "[/a]|\n\x1b\ufffe", 25.0, DECODE)
    arguments = ("[/a]|\n\x1b\ufffe", "again", "--fail-on", "steps>\x1f+5%")
    assert compare(*arguments, "--junit", "x.xml") == 0
    assert "[/a]|" in capsys.readouterr().out
    assert "[/a]|" in next(ElementTree.parse(logs / "x.xml").iter("testcase")).get("classname")
    assert compare(*arguments, "--markdown") == 0
    [heads] = [each for each in capsys.readouterr().out.splitlines() if "| figure |" in each]
    assert heads.endswith("| again | change | 95 % interval |  |")


def test_a_reader_that_ended_is_no_failed_condition(logs):
    for options in ([], ["--json"]):
        ours, theirs = os.pipe()
        os.close(ours)
        command = ["-m", "keras_gpukit", "compare", "logs/main", "logs/branch", *options]
        done = subprocess.run(
            [sys.executable, *command], stdout=theirs, stderr=subprocess.PIPE, env=environment()
        )
        os.close(theirs)
        assert (done.returncode, done.stderr) == (141, b"")


def test_json_is_the_record(logs, capsys):
    assert compare("main", "branch", "--json", "--fail-on", "step_time>+10%") == 1
    plain = valid_json("compare", capsys.readouterr().out)
    assert plain["schema"] == 1
    record = from_dict(plain, RunComparison)
    assert (record.a, record.b) == ("main", "branch")
    assert record.figure("step_time").mark == "worse"
    assert record.conditions[0].is_met


def test_one_of_several_runs_is_named(logs, capsys, shown):
    assert main(["compare", "logs", "logs#main"]) == 2
    error = capsys.readouterr().err
    assert "logs has 3 runs; give the folder of one or logs#NAME, or all repeats " in error
    assert "branch" in error
    assert main(["compare", "logs#main", "logs#branch"]) == 0
    assert shown().startswith("logs#branch is 1.24× slower than logs#main: ")
    write(logs / "logs" / "main", 31.0, DECODE)
    assert main(["compare", "logs/main#main", "logs/main#2"]) == 0
    assert " is 1.24× slower than " in shown()


def test_of_a_script_with_several_fits_the_longest_is_compared_with_its_like(logs, shown):
    for script, step_ms in (("before", 25.0), ("after", 31.0)):
        for fit, slower in (("first", 2.0), ("tuned", 1.0)):
            write(logs / script / fit, slower * step_ms, DECODE)
        (logs / script / "gpukit").mkdir()
        (logs / script / "gpukit" / "script.json").write_text(
            '{"wall_s": 60.0, "imports_s": 9.0, "before_s": 1.0}', encoding="utf-8"
        )
    assert main(["compare", "before", "after"]) == 0
    assert re.match(r"after#(\w+) is 1.24× slower than before#\1: ", shown())
    write(logs / "after" / "third", 99.0, DECODE)
    assert main(["compare", "before", "after#third"]) == 0
    assert shown().startswith("after#third is ")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("logs/none", "logs/main"), "There is no folder 'logs/none'"),
        (("logs/started", "logs/main"), "No run in logs/started has recorded anything yet"),
        (("logs#none", "logs/main"), "There is no run 'none' under logs; runs: "),
    ],
)
def test_what_cannot_be_read_is_named(logs, capsys, arguments, message):
    write_lines(logs / "logs" / "started", []).write_text("{", encoding="utf-8")  # half a line
    assert main(["compare", *arguments]) == 2
    assert message in capsys.readouterr().err


@pytest.fixture
def repeats(tmp_path, monkeypatch):
    """Three runs of each side, in turn, on a machine that becomes slower all the time."""
    monkeypatch.chdir(tmp_path)
    began_s = 1000.0
    for speed in (1.0, 1.2, 1.4):
        for name, step_ms in (("main", 25.0), ("branch", 28.0 + speed)):
            lines = run_lines(2, summary=summary(speed * step_ms, DECODE, READ), began_s=began_s)
            write_lines(tmp_path / f"{name}-{speed}", lines)
            began_s += 60.0


def test_repeats_are_compared_with_their_neighbours_in_time(repeats, shown, capsys):
    assert main(["compare", "main-*", "branch-*", "--fail-on", "step_time>+10%"]) == 1
    text = shown()
    assert text.startswith("branch-* is 17 % slower than main-*: step time 30 ms → 35.1 ms")
    assert " from 3 and 3 runs)." in text
    assert main(["compare", "main-*", "branch-1.0"]) == 0
    assert "Not distinguishable from noise" in shown()
    # Short repeats have an interval.
    for n, name in enumerate(("a-1", "b-1", "a-2", "b-2", "a-3", "b-3")):
        step_ms = 25.0 + n % 2 + 0.01 * n
        made = summary(step_ms, DECODE, READ, steps_ms=[step_ms, step_ms])
        write_lines(Path(name), run_lines(2, summary=made, began_s=1000.0 + 60 * n))
    assert main(["compare", "a-*", "b-*", "--markdown"]) == 0
    assert capsys.readouterr().out.startswith("**b-* is 4.0 % slower than a-*: ")


def test_a_pattern_that_matches_no_run_or_runs_that_differ_is_an_error(repeats, logs, capsys):
    assert main(["compare", "main-*", "other-*"]) == 2
    assert "No folder matches other-*" in capsys.readouterr().err
    assert main(["compare", "logs#*a*", "logs/branch", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["runs"] == [3, 1]
    assert main(["compare", "logs#b*", "logs#x*"]) == 2
    assert "There is no run 'x*' under logs" in capsys.readouterr().err
    environment = replace(SUMMARY.environment, jit_compile=True)
    lines = run_lines(2, summary=summary(25.0, DECODE, environment=environment))
    write_lines(logs / "main-jit", lines)
    assert main(["compare", "main-*", "logs/branch"]) == 2
    error = capsys.readouterr().err
    assert " in main-1.0 and " in error
    assert error.endswith(" in main-jit\n")
    # A pattern matches folders whose names have a number sign.
    for name in ("issue#7-1", "issue#7-2"):
        write(logs / name, 25.0, DECODE, READ)
    assert main(["compare", "issue#7-*", "logs/branch", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["runs"] == [2, 1]
    assert main(["compare", "main-1.0", "main-1.2", "branch-1.0", "branch-1.2"]) == 2
    assert "received 4; patterns of repeated runs need quotes" in capsys.readouterr().err
