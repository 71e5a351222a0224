"""Several workers or replicas, one of them slow: what the chief says, and what changes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from helpers import prepared
from helpers.clusters import LocalCluster

from keras_gpukit.saved_runs.log_folder import load_report

CASES = Path(__file__).parent / "cases"
WORKERS = 3


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("workers")
    with LocalCluster(
        CASES / "one_straggler.py", [folder], folder / "logs_of_tasks", workers=WORKERS
    ) as cluster:
        assert cluster.finish() == [0] * WORKERS, cluster.outputs()
    results = (folder / f"results{index}.json" for index in range(WORKERS))
    return folder, [json.loads(each.read_text()) for each in results]


def test_the_chief_names_the_slow_worker_with_its_cause(run):
    """Its steps sleep for 80 ms and the others' for 20, which a full core delays for all alike."""
    folder, (chief, *others) = run
    straggler = "Worker 1 is a straggler: its own compute takes longer"
    assert straggler in chief["findings"]
    assert not any("straggler" in title for each in others for title in each["findings"])
    runs = load_report(folder / "logs").runs
    of_chief = next(each for each in runs if each.worker.index == 0)
    assert straggler in [each.title for each in of_chief.summary.findings]
    # Without a common folder it says which records are missing.
    assert "workers 1, 2 are not in this log folder" in chief["not_judged"]
    assert all("the chief compares the workers" in each["not_judged"] for each in others)


def test_watching_changes_nothing_and_each_worker_records_its_steps_and_links(run):
    """Of thirty steps of 80 ms, more than twenty are compared, whatever a machine delays."""
    for index, result in enumerate(run[1]):
        assert result["watched"] == result["unwatched"]
        assert 20 < result["compared"] <= 30
        assert result["examples"] == pytest.approx(4 * 30, abs=4)
        assert set(result["round_trips"]) == set(range(WORKERS)) - {index}


def test_only_the_chief_prints_the_setup_and_the_others_their_gpus(run):
    """Needs no time of its own, but that run."""
    chief, *others = (
        (run[0] / "logs_of_tasks" / f"worker{index}.log").read_text() for index in range(WORKERS)
    )
    assert "GPU setup ─" in chief
    assert "CollectiveAllReduceStrategy, 3 replicas" in chief
    for index, printed in enumerate(others, start=1):
        [line] = [line for line in printed.splitlines() if "GPU setup" in line]
        assert line.startswith(f"GPU setup of worker {index}: no GPU. ")
        assert "replicas" not in printed


def test_a_wait_for_a_late_replica_is_counted_and_no_value_changes():
    """Of two calls: the first replica waits 0.2 s for the second, which counts a little too."""
    done = prepared.run(CASES / "clocked_collectives.py")
    printed = json.loads(done.stdout.splitlines()[-1])
    assert printed["same"]
    assert 0.2 <= printed["waited_s"] <= 2 * printed["took_s"]
    assert printed["still_clocked"]  # another run of the process still watches
    assert printed["restored"]
