"""Workers in processes of their own, against a single process; and one cause, planted there."""

import json
from pathlib import Path

import numpy as np
import pytest
from helpers import prepared
from helpers.clusters import LocalCluster

from keras_gpukit.records import RunSummary, from_dict

pytestmark = pytest.mark.slow
CASES = Path(__file__).parent / "cases"
CASE = CASES / "training.py"
# Five decimals, whatever the size of the figure.
EQUAL = {"rel": 1e-5, "abs": 1e-5}


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """What each case comes to in a single process."""
    folder = tmp_path_factory.mktemp("alone")
    prepared.run(CASE, folder, "everything", "resumable", timeout=240)
    return json.loads((folder / "results0.json").read_text())


def together(folder, *cases):
    with LocalCluster(CASE, [folder, *cases], folder / "logs_of_tasks", workers=2) as cluster:
        assert cluster.finish() == [0, 0], cluster.outputs()
    return [json.loads((folder / f"results{index}.json").read_text()) for index in range(2)]


def assert_equal(results, expected, *names):
    for name in names:
        assert flat(results[name]) == pytest.approx(flat(expected[name]), **EQUAL), name


def flat(value):
    if isinstance(value, dict):
        return {f"{k}/{i}": v for k in value for i, v in enumerate(np.atleast_1d(value[k]))}
    return value


@pytest.fixture(scope="module")
def two(tmp_path_factory):
    """Workers of which one is killed; then both do everything else, and resume."""
    folder = tmp_path_factory.mktemp("together")
    arguments = [folder, "resumable"]
    with LocalCluster(CASE, arguments, folder / "killed", workers=2, KILL="1") as cluster:
        chief, killed = cluster.finish()
        assert (chief, killed) == (1, -9), cluster.outputs()
        error = cluster.task("worker", 0).output.splitlines()[-1]
        address = cluster.addresses["worker"][1]
    assert error.startswith("keras_gpukit.errors.WorkerError: Lost contact with worker 1")
    assert address in error
    # The chief has a backup of the first epoch on its disk, the other has none on its own.
    assert (folder / "own0" / "resume").exists()
    assert not (folder / "own1" / "resume").exists()
    return folder, together(folder, "everything", "resumable")


def test_two_workers_equal_one_process_each_is_monitored_and_only_the_chief_writes(alone, two):
    folder, workers = two
    single = alone["everything"]
    for worker in workers:
        assert worker["replicas"] == 2
        found = worker["everything"]
        # With the validation of each epoch, and stopped early after the same one.
        assert_equal(found, single, "history", "weights", "evaluate", "predict")
        assert 1 < len(found["history"]["val_loss"]) < 5
        assert found["monitor"]["steps"] == 4 * len(found["history"]["loss"])
        assert found["monitor"]["step_time_s"] > 0
        assert 0 <= found["monitor"]["input_stall_fraction"] <= 1
    assert len(list((folder / "logs" / "gpukit").glob("run*.jsonl"))) == 2
    _, (chief, other) = two
    assert (chief["is_chief"], other["is_chief"]) == (True, False)
    for name in ("best.keras", "backup/latest.weights.h5", "tensorboard/train", "log.csv"):
        assert name in chief["files"]
    assert other["files"] == []


# In `make test`, test_repairs.py shows several steps of two replicas in one process.
@pytest.mark.long
def test_several_steps_per_execution_and_a_custom_step_equal_one_process(tmp_path):
    prepared.run(CASE, tmp_path / "alone", "ways", timeout=240)
    single = json.loads((tmp_path / "alone" / "results0.json").read_text())["ways"]
    for each in together(tmp_path / "together", "ways"):
        worker = each["ways"]
        assert_equal(worker["several_steps"], single["several_steps"], "weights", "history")
        assert_equal(worker["custom_step"], single["custom_step"], "weights")
        # Keras' compute_loss returns each replica's share, which sums up to the loss.
        shares = [2 * share for share in worker["custom_step"]["history"]["own_loss"]]
        assert shares == pytest.approx(single["custom_step"]["history"]["own_loss"], **EQUAL)


def test_a_killed_worker_is_named_and_all_resume_from_the_chiefs_backup(alone, two):
    expected = alone["resumable"]
    for each in two[1]:
        worker = each["resumable"]
        assert worker["epochs"] == [1, 2]
        assert worker["history"]["loss"] == pytest.approx(expected["history"]["loss"][1:], **EQUAL)
        assert_equal(worker, expected, "weights")


@pytest.mark.long
def test_files_of_different_size_give_uneven_shards(tmp_path):
    case, logs = CASES / "planted_shards.py", tmp_path / "logs_of_tasks"
    with LocalCluster(case, [tmp_path], logs, workers=2) as cluster:
        assert cluster.finish() == [0, 0], cluster.outputs()
    texts = [(tmp_path / f"{name}0.json").read_text() for name in ("uneven", "even")]
    chief, even = (from_dict(json.loads(text), RunSummary) for text in texts)
    (finding,) = (each for each in chief.findings if each.code == "uneven-shards")
    figures = {each.name: each.value for each in finding.evidence}
    # By the steps that were measured, to which the first one does not belong.
    expected = {"examples of worker 0": 960, "examples of worker 1": 320}
    assert figures == pytest.approx(expected, rel=0.1)
    # The run takes the steps of the larger file, each of half of the global batch.
    assert chief.steps == pytest.approx(960 / 16, abs=1)
    assert "uneven-shards" in even.verdict.passed
    assert finding.saving.high_s > 0
    assert finding.saving.upper_bound
