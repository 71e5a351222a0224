"""`keras-gpukit report`."""

from __future__ import annotations

import gzip
import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from helpers.json_output import validator_of
from helpers.recorded_profiles import write_profile
from helpers.recorded_runs import BEGAN_S, SUMMARY, run_lines, write_lines
from helpers.workers import write_worker

from keras_gpukit.cli.main import main
from keras_gpukit.records import Report, from_dict
from keras_gpukit.saved_runs import load_report


@pytest.fixture
def logs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_lines(tmp_path / "logs", run_lines())
    return tmp_path / "logs"


def test_the_page_is_written_here_and_the_verdict_told(logs, capsys):
    assert main(["report", str(logs)]) == 0
    result = capsys.readouterr().out
    assert result == (
        "logs: critical: 38 % of the time is spent waiting for data: the bottleneck is decode "
        "(train.py:12)\n"
        "Written to report.html\n"
    )
    html = (logs.parent / "report.html").read_text(encoding="utf-8")
    assert "38 % of the time is spent waiting for data: the bottleneck is decode" in html
    assert "plotly.js v" in html
    assert [path.name for path in sorted(logs.parent.iterdir())] == ["logs", "report.html"]


def test_a_report_is_written_over_but_nothing_else(logs, capsys):
    out = logs.parent / "page.html"
    for _ in range(2):
        assert main(["report", str(logs), "--out", str(out)]) == 0
    out.write_text("my own work")
    assert main(["report", str(logs), "--out", str(out)]) == 2
    assert "already exists and is not a report; give another --out" in capsys.readouterr().err
    assert out.read_text() == "my own work"


def test_json_has_all_that_the_page_is_made_of(logs, capsys):
    assert main(["report", str(logs), "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    report = from_dict(result, Report)
    assert report.runs == load_report(logs).runs
    assert report.runs[0].summary == SUMMARY
    assert result["runs"][0]["steps"]["figures"]["step_time_s"]["high"][6] == 0.125
    assert main(["report", str(logs), "--json", "--out", "report.json"]) == 0
    assert main(["report", str(logs), "--json", "--out", "report.json"]) == 0
    assert from_dict(json.loads((logs.parent / "report.json").read_text()), Report)


def test_json_is_as_its_schema_says(logs, capsys):
    killed = Path(__file__).parents[1] / "saved_runs" / "killed_in_first_step.jsonl.gz"
    (logs / "killed" / "gpukit").mkdir(parents=True)
    (logs / "killed" / "gpukit" / "run.jsonl").write_bytes(gzip.decompress(killed.read_bytes()))
    write_profile(logs / "elsewhere", "transformer")
    validator = validator_of("report")
    assert main(["report", str(logs), "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert len(report["runs"]) == 2
    assert report["captures"][0]["verdict"]["findings"]
    assert validator.schema["$id"].endswith(f":{report['schema']}")
    validator.validate(report)
    report["runs"][1]["summary"]["verdict"]["findings"][0]["severity"] = "terrible"
    assert not validator.is_valid(report)


def test_no_run_is_an_error_that_says_what_was_looked_for(tmp_path, capsys):
    missing = tmp_path / "no"
    for folder, words in ((tmp_path, "No run was found"), (missing, "There is no folder")):
        assert main(["report", str(folder)]) == 2
        result = capsys.readouterr()
        assert result.out == ""
        assert f"keras-gpukit report: {words}" in result.err
        assert str(folder) in result.err


def test_what_is_no_file_is_left_alone(logs, capsys):
    pipe = logs.parent / "pipe"
    os.mkfifo(pipe)
    assert main(["report", str(logs), "--out", str(pipe)]) == 2
    assert "pipe is not a regular file" in capsys.readouterr().err
    assert pipe.is_fifo()


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("report ''", "argument LOGDIR: the path is empty"),
        ("report logs --out ''", "argument --out: the path is empty"),
        ("report logs --out logs", "argument --out: logs is a folder; give a file"),
        ("report logs --out no/report.html", "argument --out: the folder no does not exist"),
        ("compare '' logs", "argument RUN_A: the path is empty"),
        ("compare logs ''", "argument RUN_B: the path is empty"),
        ("compare logs logs --junit ''", "argument --junit: the path is empty"),
        ("compare logs logs --junit logs", "argument --junit: logs is a folder; give a file"),
        ("compare logs logs --junit no/x.xml", "argument --junit: the folder no does not exist"),
        ("run ''", "give the SCRIPT to run, or -m MODULE"),
        ("tune -m ''", "give the SCRIPT to run, or -m MODULE"),
    ],
)
def test_a_path_that_cannot_be_meant_is_refused_with_its_argument(logs, line, said, capsys):
    with pytest.raises(SystemExit, match="2"):
        main(shlex.split(line))
    assert f"error: {said}\n" in capsys.readouterr().err


def test_many_runs_are_told_in_a_few_lines(logs, capsys):
    for number in range(1, 6):
        write_lines(logs / str(number), run_lines(3, began_s=BEGAN_S + 100 * number))
    assert main(["report", str(logs)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(":")[0] for line in lines] == [
        "5",
        "4",
        "3",
        "and 3 more runs",
        "Written to report.html",
    ]


@pytest.mark.heavy
def test_a_report_loads_no_framework(logs):
    code = (
        "import sys; from keras_gpukit.cli.main import main; main(['report', 'logs']); "
        "print(set(sys.modules) & {'tensorflow', 'keras', 'tensorboard', 'pandas'})"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=logs.parent
    )
    assert done.stdout.splitlines()[-1] == "set()"


def test_of_several_workers_the_chiefs_verdict_is_printed(tmp_path, capsys):
    for index in range(4):
        write_worker(tmp_path / "logs", index)
    assert main(["report", str(tmp_path / "logs"), "--out", str(tmp_path / "out.html")]) == 0
    printed = capsys.readouterr().out.splitlines()
    assert printed[0].startswith("logs, worker 0: critical: Worker 2 is a straggler")
    assert printed[1] == "and 3 more runs"


def test_a_killed_run_is_said_to_have_ended_without_a_word(tmp_path, capsys):
    write_lines(tmp_path / "logs", run_lines(20, summary=None))
    assert main(["report", str(tmp_path / "logs"), "--out", str(tmp_path / "report.html")]) == 0
    assert "ended without a summary after 800 steps (killed" in capsys.readouterr().out


def test_a_profile_of_another_tool_gets_a_verdict(tmp_path, capsys):
    write_profile(tmp_path / "logs" / "train", "launch_spe8", "older", age_s=60)
    write_profile(tmp_path / "logs" / "train", "convolutional")
    assert main(["report", str(tmp_path / "logs"), "--out", str(tmp_path / "out.html")]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert "profile 2026_11_26/vm" in printed
    assert "Verdict 66 % of the GPU time is batch normalization in float32 kernels" in printed
    assert "Next compile(jit_compile=True)" in printed
    assert "By kind of layer: batch normalization 66 %" in printed
    assert printed.endswith(f"Written to {tmp_path / 'out.html'}")
    assert main(["report", str(tmp_path / "logs"), "--json"]) == 0
    older, newer = json.loads(capsys.readouterr().out)["captures"]
    codes = [each["verdict"]["findings"][0]["code"] for each in (older, newer)]
    assert codes == ["launch-bound", "unfused-operations"]
    assert newer["profile"]["kernels"]
