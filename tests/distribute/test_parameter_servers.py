"""A coordinator, workers and a parameter server in processes of their own."""

import json
import os
import signal
import time
from pathlib import Path

import pytest
from helpers.clusters import LocalCluster

pytestmark = pytest.mark.slow
CASE = Path(__file__).parent / "cases" / "coordinated.py"


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run in which a worker is killed in the middle of the second epoch."""
    folder = tmp_path_factory.mktemp("coordinated")
    with LocalCluster(CASE, [folder], folder / "logs", workers=2, servers=1) as cluster:
        in_second_epoch = folder / "kill_now"
        chief = cluster.task("chief", 0)
        while not in_second_epoch.exists():
            assert chief.process.poll() is None, cluster.outputs()
            time.sleep(0.05)
        os.kill(cluster.task("worker", 1).process.pid, signal.SIGKILL)
        (folder / "killed").touch()
        statuses = cluster.finish()
        assert statuses == [0, -signal.SIGKILL, 0, 0], cluster.outputs()
    return json.loads((folder / "results.json").read_text())


def test_training_goes_on_when_a_worker_is_killed(run):
    assert run["epochs"] == [0, 1, 2]
    assert run["loss"][-1] < 0.5 * run["loss"][0]
    assert len(run["history"]["val_loss"]) == 3


def test_each_epoch_sees_all_data(run):
    # The steps that a lost worker had not finished are made by others; one may be made twice.
    for first, last in run["optimizer_steps"]:
        assert 8 <= last - first <= 8 + 1


def test_callbacks_see_every_step_in_order(run):
    assert run["batches"] == [*range(8)] * 3
    assert run["monitor_steps"] == 24
    assert "best.keras" in run["files"]


def test_evaluate_and_predict_use_the_trained_weights(run):
    assert run["evaluate"]["loss"] == pytest.approx(run["expected"]["loss"], rel=1e-5)
    assert run["predict"] == pytest.approx(run["expected"]["predict"], rel=1e-5, abs=1e-6)
