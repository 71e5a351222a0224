"""One job of several workers: what Slurm or Kubernetes leave to do, and one folder for all."""

import json
import os
import subprocess
import sys

from helpers.processes import environment

from keras_gpukit.distributed.clusters import read_cluster, set_tf_config
from keras_gpukit.scripts.run_folder import RunFolder, job_of


def pods(addresses=("train-0:2222", "train-1:2222")) -> list[dict[str, str]]:
    """The variables of each pod of an Indexed Job."""
    known = {"GPUKIT_WORKERS": str(len(addresses)), "GPUKIT_ADDRESSES": ",".join(addresses)}
    return [{**known, "JOB_COMPLETION_INDEX": str(index)} for index in range(len(addresses))]


def folder(tmp_path, pod, script="train") -> RunFolder:
    return RunFolder(tmp_path, script, job=job_of(pod))


def test_a_script_finds_the_cluster_in_tf_config_and_we_know_where_it_is_from():
    variables = pods()[1]
    set_tf_config(variables)
    config = json.loads(variables["TF_CONFIG"])
    assert config["cluster"] == {"worker": ["train-0:2222", "train-1:2222"]}
    assert config["task"] == {"type": "worker", "index": 1}
    assert read_cluster(variables).source == "Kubernetes Indexed Job"


def test_the_workers_of_a_job_share_a_folder_and_the_next_run_gets_another(tmp_path):
    # A process of its own and an unreadable cluster share none.
    assert job_of({}) is job_of({"TF_CONFIG": '{"cluster": {"worker": ["a:1", "b:2"]}, '}) is None
    for _ in range(2):
        chief, other = (folder(tmp_path, pod) for pod in pods())
        for index, of in enumerate((chief, other)):
            path = of.path() / "digits" / "gpukit" / f"run-{index}.jsonl"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
        assert chief.path() == other.path()
    assert len(list(tmp_path.iterdir())) == 2


def test_a_worker_that_comes_first_waits_for_nobody_and_old_folders_are_left(tmp_path):
    chief, other = (folder(tmp_path, pod) for pod in pods())
    os.utime(other.path(), (0, 0))  # of a run in which the chief died early
    assert chief.path() != other.path()
    assert folder(tmp_path, pods(("a:1", "b:1"))[0]).path() != chief.path()


def test_a_wrong_cluster_is_said_in_a_sentence(tmp_path):
    (tmp_path / "train.py").write_text("print('ran')")
    env = environment(JOB_COMPLETION_INDEX="0", GPUKIT_WORKERS="many")
    env.pop("TF_CONFIG", None)
    command = [sys.executable, "-m", "keras_gpukit.scripts.launched_script", "train.py"]
    done = subprocess.run(command, env=env, cwd=tmp_path, capture_output=True, check=False)
    assert done.returncode == 2
    assert b"`GPUKIT_WORKERS` must be a whole number" in done.stderr
    assert b"Traceback" not in done.stderr
