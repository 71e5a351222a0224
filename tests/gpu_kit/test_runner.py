"""The runner of the GPU evidence kit, with parts that end well, fail, crash and hang."""

from __future__ import annotations

import json
import subprocess
import sys
import time

import psutil
import pytest
from helpers.processes import ROOT, environment

from benchmarks.gpu.runner import Runner, Skipped

GPU = {"kind": "gpu", "gpus": [{"name": "a GPU"}]}


@pytest.fixture
def runner(tmp_path, monkeypatch):
    """Makes runners of the parts in `fake_parts`, on a machine with a GPU."""
    monkeypatch.setenv("PYTHONPATH", environment()["PYTHONPATH"])

    def make(device=GPU, minutes=18.0, **changes):
        return Runner(tmp_path, device, minutes=minutes, package="gpu_kit.fake_parts", **changes)

    return make


def saved(folder, name):
    return json.loads((folder / f"{name}.json").read_text())


def test_a_part_writes_what_it_measured_and_on_what(runner, tmp_path):
    [result] = runner().run(["quick"])

    assert result == saved(tmp_path, "quick")
    assert (result["status"], result["measured"]) == ("complete", {"figure": 2})
    assert result["device"] == GPU
    assert result["date"][:2] == "20"
    assert result["outcomes"]["two"] == {"holds": True, "evidence": "2 was measured."}
    assert result["outcomes"]["never"]["holds"] is None
    assert (tmp_path / "quick" / "kept.txt").read_text() == "full size"


@pytest.mark.parametrize(
    ("device", "small", "reason"),
    [({"kind": "cpu"}, False, "on a CPU"), (GPU, True, "in small")],
)
def test_nothing_is_proven_on_a_cpu_or_in_small(runner, device, small, reason):
    [result] = runner(device, small=small).run(["quick"])

    assert result["status"] == "complete"
    assert result["outcomes"]["two"]["holds"] is None
    assert reason in result["outcomes"]["two"]["evidence"]


def test_a_part_that_is_killed_keeps_what_it_measured_and_leaves_the_others_whole(runner, tmp_path):
    def limit_after_first_measurement(process, limit_s):
        assert limit_s == 60
        while process.poll() is None:
            newest = max(tmp_path.glob("*.json"), key=lambda path: path.stat().st_mtime_ns)
            if "process" in json.loads(newest.read_text())["measured"]:
                raise subprocess.TimeoutExpired("hanging", limit_s)
            time.sleep(0.01)

    limited = runner(wait=limit_after_first_measurement)
    statuses = [each["status"] for each in limited.run(["quick", "hanging", "crashing"])]

    assert statuses == ["complete", "killed", "failed"]
    assert saved(tmp_path, "quick")["measured"] == {"figure": 2}
    killed = saved(tmp_path, "hanging")
    assert killed["outcomes"]["process"]["holds"] is True
    started = killed["measured"]["process"]
    assert not psutil.pid_exists(started) or psutil.Process(started).status() == "zombie"


def test_a_part_that_fails_keeps_what_it_measured_and_why_it_failed(runner, tmp_path):
    results = list(runner().run(["failing", "crashing", "quick"]))

    assert [result["status"] for result in results] == ["failed", "failed", "complete"]
    failing, crashing = saved(tmp_path, "failing"), saved(tmp_path, "crashing")
    assert failing["measured"] == crashing["measured"] == {"figure": 1}
    assert "the measurement failed" in failing["traceback"]
    assert "the judge failed" in failing["traceback"]
    assert "exit code -11" in crashing["traceback"]
    assert "about to crash" in crashing["traceback"]


def test_a_run_is_resumed_but_not_on_another_machine(runner):
    [first] = runner().run(["quick"])
    [again] = runner().run(["quick"])
    [named] = runner().run(["quick"], again=True)
    [elsewhere] = runner({"kind": "gpu", "gpus": []}).run(["quick"])

    assert again == Skipped("quick", "already complete")
    assert [each["status"] for each in (first, named, elsewhere)] == ["complete"] * 3


def test_what_does_not_fit_the_time_is_skipped_and_named(runner):
    times = iter([0.0, 0.0, 30.0])

    ran, skipped = runner(minutes=1.2, clock=lambda: next(times)).run(["crashing", "quick"])

    assert ran["status"] == "failed"
    assert skipped == Skipped("quick", "may take 1 minutes, and 0.7 are left")


def test_an_unknown_part_is_an_error():
    command = [sys.executable, "-m", "benchmarks.gpu", "nonsense"]
    ended = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)

    assert ended.returncode == 2
    assert "no such part: nonsense" in ended.stderr
