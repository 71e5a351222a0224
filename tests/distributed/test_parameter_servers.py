"""A coordinator, workers and a parameter server in processes of their own."""

import json
import os
import signal
import time
from pathlib import Path

import pytest
from helpers.clusters import LocalCluster
from packaging.version import Version

pytestmark = pytest.mark.slow
CASE = Path(__file__).parent / "cases" / "coordinated.py"


def kill_in_second_epoch(cluster, folder):
    """Kills the task that the chief names; returns the exit statuses of all others by role."""
    chief = cluster.task("chief", 0)
    while not (folder / "kill").exists():
        assert chief.process.poll() is None, cluster.outputs()
        time.sleep(0.05)
    role, index = (folder / "kill").read_text().split()
    killed = cluster.task(role, int(index))
    os.kill(killed.process.pid, signal.SIGKILL)
    (folder / "killed").touch()
    statuses = zip(cluster.tasks, cluster.finish(), strict=True)
    return sorted((task.role, status) for task, status in statuses if task is not killed)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run in which a worker is killed between a step and the copying of its result."""
    folder = tmp_path_factory.mktemp("coordinated")
    arguments = [folder, "worker"]
    with LocalCluster(CASE, arguments, folder / "logs", workers=2, servers=1) as cluster:
        others = kill_in_second_epoch(cluster, folder)
        assert others == [("chief", 0), ("ps", 0), ("worker", 0)], cluster.outputs()
    return json.loads((folder / "results.json").read_text())


def test_training_goes_on_when_a_worker_is_killed_and_each_epoch_sees_all_data(run):
    assert run["epochs"] == [0, 1, 2]
    assert run["history"]["loss"][-1] < 0.5 * run["history"]["loss"][0]
    assert len(run["history"]["val_loss"]) == 3
    # The steps that a lost worker had not finished are made by others; one may be made twice.
    for first, last in run["optimizer_steps"]:
        assert 8 <= last - first <= 8 + 1


def test_callbacks_see_every_step_in_order_and_what_follows_uses_the_trained_weights(run):
    assert run["batches"] == [*range(8)] * 3
    assert run["monitor_steps"] == 24
    # What the checkpoint of the last epoch gives on the chief alone.
    assert run["evaluate"]["loss"] == pytest.approx(run["expected"]["loss"], rel=1e-5)
    assert run["predict"] == pytest.approx(run["expected"]["predict"], rel=1e-5, abs=1e-6)


# In `make test`, the tests above train with parameter servers.
@pytest.mark.long
def test_no_step_of_an_epoch_that_was_left_counts_in_what_comes_next_and_no_batch_twice(tmp_path):
    import keras

    arguments = [tmp_path, "steps"]
    with LocalCluster(CASE, arguments, tmp_path / "logs", workers=2, servers=1) as cluster:
        assert cluster.finish() == [0, 0, 0, 0], cluster.outputs()
    found = json.loads((tmp_path / "results.json").read_text())
    for how, left in found["left"].items():
        *measured, again = left["measured"]
        assert measured == pytest.approx([again] * len(measured), rel=0.05)
        assert len(set(left["updates"])) == 1
        if how != "raises":  # then Keras does not call on_train_end
            assert left["weights after"] == left["weights"]
    # Epochs take whole executions, and each batch of a PyDataset's workers once.
    assert found["executions"] == [6, 6, 6]
    assert found["own batches"] == [1111, 1111, 1111]
    # The wait for input is at most what the coordinator fetches.
    confidence, stall_fraction = found["stall"]
    assert confidence == "upper bound"
    assert 0 < stall_fraction <= 1
    # Losses of several outputs are those of one process; later versions of Keras weigh those of a
    # smaller last batch in another way.
    if Version(keras.__version__).release < (3, 16):
        coordinated, alone = found["outputs"]
        assert coordinated == pytest.approx(alone, rel=1e-5)


# In `make test`, test_multi_worker.py shows that a lost worker is named.
@pytest.mark.long
def test_a_lost_parameter_server_is_named_and_all_processes_end(tmp_path):
    arguments = [tmp_path, "server"]
    with LocalCluster(CASE, arguments, tmp_path / "logs", workers=2, servers=1) as cluster:
        others = kill_in_second_epoch(cluster, tmp_path)
        assert others == [("chief", 1), ("worker", 0), ("worker", 0)], cluster.outputs()
        output = cluster.task("chief", 0).output
    address = cluster.addresses["ps"][0]
    for call in ("fit", "WorkerError"):
        assert f"{call}: Lost contact with ps 0 at {address}" in output
