"""`keras-gpukit report`."""

import gzip
import json
import os
from pathlib import Path

import pytest
from helpers.json_output import validator_of
from helpers.recorded_profiles import write_profile
from helpers.recorded_runs import BEGAN_S, SUMMARY, run_lines, write_lines
from helpers.workers import write_worker

from keras_gpukit.cli.main import main
from keras_gpukit.records import Report, from_dict
from keras_gpukit.saved_runs.log_folder import load_report


@pytest.fixture
def logs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_lines(tmp_path / "logs", run_lines())
    return tmp_path / "logs"


@pytest.fixture
def report(capsys):
    """Returns what the command prints on a folder."""

    def run(folder, *options):
        assert main(["report", str(folder), *options]) == 0
        return capsys.readouterr().out

    return run


def test_a_report_is_written_over_but_nothing_else(logs, capsys):
    out, pipe = logs.parent / "page.html", logs.parent / "pipe"
    for _ in range(2):
        assert main(["report", str(logs), "--out", str(out)]) == 0
    out.write_text("my own work")
    assert main(["report", str(logs), "--out", str(out)]) == 2
    assert "already exists and is not a report; give another --out" in capsys.readouterr().err
    assert out.read_text() == "my own work"
    os.mkfifo(pipe)
    assert main(["report", str(logs), "--out", str(pipe)]) == 2
    assert "pipe is not a regular file" in capsys.readouterr().err
    assert pipe.is_fifo()


def test_json_has_all_that_the_page_is_made_of(logs, report):
    result = json.loads(report(logs, "--json"))
    made = from_dict(result, Report)
    assert made.runs == load_report(logs).runs
    assert made.runs[0].summary == SUMMARY
    assert result["runs"][0]["steps"]["figures"]["step_time_s"]["high"][6] == 0.125
    for _ in range(2):
        report(logs, "--json", "--out", "report.json")
    assert from_dict(json.loads((logs.parent / "report.json").read_text()), Report)


def test_json_is_as_its_schema_says(logs, report):
    killed = Path(__file__).parents[1] / "saved_runs" / "killed_in_first_step.jsonl.gz"
    (folder := logs / "killed" / "gpukit").mkdir(parents=True)
    (folder / "run.jsonl").write_bytes(gzip.decompress(killed.read_bytes()))
    write_profile(logs / "elsewhere", "transformer")
    validator, made = validator_of("report"), json.loads(report(logs, "--json"))
    assert len(made["runs"]) == 2
    assert made["captures"][0]["verdict"]["findings"]
    assert validator.schema["$id"].endswith(f":{made['schema']}")
    validator.validate(made)
    made["runs"][1]["summary"]["verdict"]["findings"][0]["severity"] = "terrible"
    assert not validator.is_valid(made)


def test_no_run_is_an_error_that_says_what_was_looked_for(tmp_path, capsys):
    missing = tmp_path / "no"
    for folder, words in ((tmp_path, "No run was found"), (missing, "There is no folder")):
        assert main(["report", str(folder)]) == 2
        result = capsys.readouterr()
        assert result.out == ""
        assert f"keras-gpukit report: {words}" in result.err
        assert str(folder) in result.err


def test_the_page_is_written_here_and_the_verdict_told(logs, report):
    assert report(logs) == (
        "logs: critical: 38 % of the time is spent waiting for data: the bottleneck is decode "
        "(train.py:12)\n"
        "Written to report.html\n"
    )
    html = (logs.parent / "report.html").read_text(encoding="utf-8")
    assert "38 % of the time is spent waiting for data: the bottleneck is decode" in html
    assert "plotly.js v" in html
    assert [path.name for path in sorted(logs.parent.iterdir())] == ["logs", "report.html"]
    # Many runs are shown in a few lines.
    for number in range(1, 6):
        write_lines(logs / str(number), run_lines(3, began_s=BEGAN_S + 100 * number))
    told = [line.split(":")[0] for line in report(logs).splitlines()]
    assert told == ["5", "4", "3", "and 3 more runs", "Written to report.html"]


def test_of_several_workers_the_chiefs_verdict_is_printed(tmp_path, report):
    for index in range(4):
        write_worker(tmp_path / "logs", index)
    printed = report(tmp_path / "logs", "--out", str(tmp_path / "out.html")).splitlines()
    assert printed[0].startswith("logs, worker 0: critical: Worker 2 is a straggler")
    assert printed[1] == "and 3 more runs"
    # A killed run is said to have ended without a word.
    write_lines(tmp_path / "killed", run_lines(20, summary=None))
    printed = report(tmp_path / "killed", "--out", str(tmp_path / "report.html"))
    assert "ended without a summary after 800 steps (killed" in printed


def test_a_profile_of_another_tool_gets_a_verdict(tmp_path, report):
    logs, out = tmp_path / "logs", tmp_path / "out.html"
    write_profile(logs / "train", "launch_spe8", "older", age_s=60)
    write_profile(logs / "train", "convolutional")
    printed = " ".join(report(logs, "--out", str(out)).split())
    assert "profile 2026_11_26/vm" in printed
    assert "Verdict 66 % of the GPU time is batch normalization in float32 kernels" in printed
    assert "Next compile(jit_compile=True)" in printed
    assert "By kind of layer: batch normalization 66 %" in printed
    assert printed.endswith(f"Written to {out}")
    older, newer = json.loads(report(logs, "--json"))["captures"]
    codes = [each["verdict"]["findings"][0]["code"] for each in (older, newer)]
    assert codes == ["launch-bound", "unfused-operations"]
    assert newer["profile"]["kernels"]
