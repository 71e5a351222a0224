"""The runner of the GPU evidence kit, with parts that end well, fail, crash and hang."""

import contextlib
import json
import subprocess
import sys

import psutil
import pytest
from helpers.processes import ROOT, environment

from benchmarks.gpu.part import load_part
from benchmarks.gpu.results import load_all, outcomes, save
from benchmarks.gpu.runner import Runner, Skipped

GPU = {"kind": "gpu", "gpus": [{"name": "a GPU"}]}
PACKAGE = "gpu_kit.fake_parts"


@pytest.fixture
def runner(tmp_path, monkeypatch):
    """Makes runners of the parts in `fake_parts`, on a machine with a GPU."""
    monkeypatch.setenv("PYTHONPATH", environment()["PYTHONPATH"])

    def make(device=GPU, minutes=18.0, **changes):
        return Runner(tmp_path, device, minutes=minutes, package=PACKAGE, **changes)

    return make


def saved(folder, name):
    return json.loads((folder / f"{name}.all.json").read_text())


def holds(folder, name):
    part = load_part(name, PACKAGE)
    return {claim: each.holds for claim, each in outcomes(part, load_all(folder, name)).items()}


def test_a_slice_writes_what_it_measured_and_on_what(runner, tmp_path):
    [result] = runner().run(["quick:all"])
    assert result == saved(tmp_path, "quick")
    assert result["status"] == "complete"
    assert result["measured"] == {"figure": 2, "size": "full size"}
    assert (result["device"], result["date"][:2]) == (GPU, "20")
    assert holds(tmp_path, "quick") == {"two": True, "never": None}


@pytest.mark.parametrize(
    ("device", "small", "reason"), [({"kind": "cpu"}, False, "on a CPU"), (GPU, True, "in small")]
)
def test_nothing_is_proven_on_a_cpu_or_in_small(runner, tmp_path, device, small, reason):
    [result] = runner(device, small=small).run(["quick:all"])
    assert result["status"] == "complete"
    judged = outcomes(load_part("quick", PACKAGE), load_all(tmp_path, "quick"))["two"]
    assert judged.holds is None
    assert reason in judged.evidence


def test_a_case_that_crashes_or_fails_costs_only_itself(runner):
    crashed, failed = runner().run(["crashing:all", "failing:all"])
    measured = crashed["measured"]
    assert (crashed["status"], failed["status"]) == ("complete", "complete")
    assert list(measured) == ["before", "crash", "after"]
    assert "exit code -11" in measured["crash"]["error"]
    assert "about to crash" in measured["crash"]["error"]
    assert measured["before"] != measured["after"]  # the processes that measured them
    assert "ValueError: invalid literal" in failed["measured"]["failing"]["error"]
    assert failed["measured"]["figure"] == 1


def test_a_slice_that_is_killed_keeps_what_it_measured_and_leaves_nothing(runner, tmp_path):
    def clock():
        path = tmp_path / "hanging.all.json"
        measuring = path.exists() and json.loads(path.read_text()).get("case") == "hangs"
        return 100.0 if measuring else 0.0

    statuses = [each["status"] for each in runner(clock=clock).run(["hanging:all"])]
    assert statuses == ["killed"]
    killed = saved(tmp_path, "hanging")
    assert killed["measured"]["hangs"]["error"].startswith("killed after 60 s")
    assert "never" not in killed["measured"]
    assert holds(tmp_path, "hanging") == {"process": True}
    with contextlib.suppress(psutil.NoSuchProcess):  # a kill takes effect a moment later
        left = psutil.Process(killed["measured"]["process"])
        assert left.status() == psutil.STATUS_ZOMBIE or not psutil.wait_procs([left], timeout=60)[1]


def test_a_slice_runs_again_where_it_is_named_was_cut_off_or_ran_elsewhere(runner, tmp_path):
    [first] = runner().run(["quick:all"])
    [again] = runner().run(["quick:all"])
    [named] = runner().run(["quick:all"], again=True)
    [elsewhere] = runner({"kind": "gpu", "gpus": []}).run(["quick:all"])
    save(tmp_path, first | {"status": "running", "case": "size", "measured": {}})
    [resumed] = runner().run(["quick:all"])
    assert again == Skipped("quick:all", "already complete")
    assert [each["measured"] for each in (named, elsewhere, resumed)] == [first["measured"]] * 3


def test_slices_that_need_no_quiet_machine_run_at_the_same_time(runner, tmp_path, monkeypatch):
    (tmp_path / "meeting").mkdir()
    monkeypatch.setenv("MEETING", str(tmp_path / "meeting"))
    names = ["together:one", "together:alone", "together:two"]
    results = {each["slice"]: each for each in runner(at_once=2).run(names)}
    assert {each["status"] for each in results.values()} == {"complete"}
    assert results["alone"]["measured"] == {"alone": ["one", "two"]}


def test_what_does_not_fit_the_time_is_skipped_and_named(runner):
    times = iter([0.0, 0.0, 0.0])
    made = runner(minutes=1.2, clock=lambda: next(times, 30.0))
    ran, skipped = made.run(["failing:all", "quick:all"])
    assert ran["status"] == "complete"
    assert skipped == Skipped("quick:all", "may take 60 s, and 42 are left")


def test_an_unknown_part_is_an_error():
    command = [sys.executable, "-m", "benchmarks.gpu", "nonsense"]
    ended = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert ended.returncode == 2
    assert "no such part: nonsense" in ended.stderr
