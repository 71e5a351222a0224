"""Workers in processes of their own, one of them slow: what the chief says, and what changes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from helpers.clusters import LocalCluster

from keras_gpukit.saved_runs import load_report

pytestmark = pytest.mark.slow
CASE = Path(__file__).parent / "cases" / "one_straggler.py"
WORKERS = 3


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("workers")
    with LocalCluster(CASE, [folder], folder / "logs_of_tasks", workers=WORKERS) as cluster:
        assert cluster.finish() == [0] * WORKERS, cluster.outputs()
    results = (folder / f"results{index}.json" for index in range(WORKERS))
    return folder, [json.loads(each.read_text()) for each in results]


def test_watching_changes_no_weight_and_no_loss(run):
    for result in run[1]:
        assert result["watched"] == result["unwatched"]


def test_only_the_chief_prints_the_setup_and_the_others_their_gpus(run):
    chief, *others = (
        (run[0] / "logs_of_tasks" / f"worker{index}.log").read_text() for index in range(WORKERS)
    )
    assert "GPU setup ─" in chief
    assert "CollectiveAllReduceStrategy, 3 replicas" in chief
    for index, printed in enumerate(others, start=1):
        [line] = [line for line in printed.splitlines() if "GPU setup" in line]
        assert line.startswith(f"GPU setup of worker {index}: no GPU. ")
        assert "replicas" not in printed


def test_the_chief_names_the_slow_worker_with_its_cause(run):
    chief, *others = run[1]
    straggler = "Worker 1 is a straggler: its own compute takes longer"
    assert straggler in chief["findings"]
    assert not any("straggler" in title for each in others for title in each["findings"])
    report = load_report(run[0] / "logs")
    of_chief = next(each for each in report.runs if each.worker.index == 0)
    assert straggler in [each.title for each in of_chief.summary.findings]


def test_each_worker_records_its_steps_its_examples_and_the_links_to_the_others(run):
    for index, result in enumerate(run[1]):
        assert result["compared"] > 20
        assert result["examples"] == pytest.approx(4 * 30, abs=4)
        assert set(result["round_trips"]) == set(range(WORKERS)) - {index}


def test_without_a_common_folder_the_chief_says_which_records_are_missing(run):
    chief, *others = run[1]
    assert "workers 1, 2 are not in this log folder" in chief["not_judged"]
    assert all("the chief compares the workers" in each["not_judged"] for each in others)
