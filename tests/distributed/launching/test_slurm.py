"""Batch scripts: what they ask of Slurm, and what a real Slurm of two nodes makes of them."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from helpers import prepared
from helpers.processes import ROOT, environment, wait_for
from helpers.slurm import running_slurm

from keras_gpukit.distributed.launching.job import Job
from keras_gpukit.distributed.launching.job_templates import batch_script

SHOW_CLUSTER = """
import os, sys
from keras_gpukit.distributed.clusters import read_cluster
cluster = read_cluster(os.environ)
print(cluster.task_type, cluster.task_index, "on", os.environ["SLURMD_NODENAME"], cluster.address)
print("addresses", dict(cluster.addresses))
print("arguments", sys.argv[1:])
"""


def job(command=("train.py",), workers=2, **settings) -> Job:
    return Job(name="train", command=command, workers=workers, **settings)


def options(script: str) -> set[str]:
    return {line[8:] for line in script.splitlines() if line.startswith("#SBATCH ")}


@pytest.mark.parametrize(
    ("settings", "asked"),
    [
        ({}, {"--nodes=2", "--ntasks-per-node=1", "--exclusive", "--no-requeue"}),
        ({"gpus_per_worker": 4}, {"--nodes=2", "--ntasks-per-node=1", "--gpus-per-node=4"}),
        ({"cpus_per_worker": 8}, {"--cpus-per-task=8"}),
        ({"restarts": 2}, {"--requeue", "--open-mode=append"}),
        ({"parameter_servers": 1}, {"--nodes=2", "--ntasks=4"}),
        ({"log_dir": Path("logs")}, {"--output=logs/%x-%j.out"}),
    ],
)
def test_a_script_asks_for_what_the_job_needs(settings, asked):
    assert asked <= options(batch_script(job(**settings)))
    of_none = options(batch_script(job(gpus_per_worker=0)))
    assert not [each for each in of_none if "gpu" in each or "exclusive" in each or "cpus" in each]


@pytest.mark.parametrize(
    "settings",
    [{}, {"restarts": 1, "gpus_per_worker": 1, "cpus_per_worker": 2}, {"parameter_servers": 2}],
)
def test_a_script_is_valid_bash_and_each_option_says_why(settings):
    script = batch_script(job(**settings))
    checked = subprocess.run(["bash", "-n"], input=script, text=True, check=False)
    assert checked.returncode == 0
    lines = script.splitlines()
    settings = [index for index, line in enumerate(lines) if line.startswith("#SBATCH --")]
    for index in settings[1:]:  # the name needs no reason
        above = [line for line in lines[index - 3 : index] if line.startswith("# ")]
        assert above, lines[index]


@pytest.mark.parametrize("name", ["my job", "a%j", "a'b", 'a"b'])
def test_a_name_that_slurm_would_misread_is_refused(name):
    with pytest.raises(ValueError, match="Received: name="):
        batch_script(Job(name=name, command=("train.py",)))


@pytest.fixture(scope="module")
def slurm(tmp_path_factory):
    with running_slurm(tmp_path_factory.mktemp("slurm")) as running:
        yield running


def submit(slurm, folder: Path, source: str, *options: str) -> int:
    """Submits the script that `launch` writes for Python source to run on both nodes."""
    (folder / "train.py").write_text(source)
    words = ("--workers=2", "--gpus-per-worker=0", *options, "--slurm", "train.py")
    script = slurm.run(sys.executable, "-m", "keras_gpukit", "launch", *words, cwd=folder)
    (folder / "train.sbatch").write_text(script)
    return int(slurm.run("sbatch", "--parsable", "train.sbatch", cwd=folder))


def output(folder: Path, job_id: int) -> str:
    file = folder / f"train-{job_id}.out"
    return file.read_text() if file.exists() else ""


@pytest.mark.slow
@pytest.mark.slurm
def test_a_job_is_submitted_and_each_node_runs_one_worker_which_knows_the_others(slurm, tmp_path):
    (tmp_path / "train.py").write_text(SHOW_CLUSTER)
    arguments = ["a b", "$HOME", "it's", "--slurm"]
    words = ("--workers=2", "--gpus-per-worker=0", "--slurm", "--submit", "--log-dir=logs")
    launch = (sys.executable, "-m", "keras_gpukit", "launch", *words, "--name=mine", "train.py")
    printed = slurm.run(*launch, *arguments, cwd=tmp_path)
    job_id = int(printed.split()[-1])
    assert printed == f"Submitted batch job {job_id}\n"
    assert slurm.wait_for_end(job_id) == "COMPLETED"
    lines = (tmp_path / "logs" / f"mine-{job_id}.out").read_text().splitlines()
    first = 10_000 + job_id % 312 * 64
    addresses = {"worker": (f"127.0.0.1:{first}", f"127.0.0.1:{first + 1}")}
    assert "Attempt 1 of 1, on n1 n2" in lines
    for index, address in enumerate(addresses["worker"]):
        assert f"{index}: worker {index} on n{index + 1} {address}" in lines
        assert f"{index}: addresses {addresses}" in lines
        assert f"{index}: arguments {arguments}" in lines


@pytest.mark.long  # `test_launch.py` has the roles, and the other jobs have Slurm
@pytest.mark.slow
@pytest.mark.slurm
def test_parameter_servers_share_the_workers_nodes_and_the_job_ends_as_its_chief_does(
    slurm, tmp_path
):
    source = f"""{SHOW_CLUSTER}
import time
rank = int(os.environ["SLURM_PROCID"])
if rank == 1:
    raise SystemExit("a worker failed")
time.sleep(3)
print("went on")
"""
    job_id = submit(slurm, tmp_path, source, "--ps=1")
    assert slurm.wait_for_end(job_id) == "COMPLETED", output(tmp_path, job_id)
    lines = output(tmp_path, job_id).splitlines()
    assert {"0: went on", "2: went on", "3: went on", "1: a worker failed"} <= set(lines)
    places = re.findall(r"^\d: (\w+ \d on n\d)", output(tmp_path, job_id), re.MULTILINE)
    assert {*places} == {"chief 0 on n1", "worker 0 on n2", "worker 1 on n1", "ps 0 on n2"}
    failing = source.replace("rank == 1", "rank == 0")
    assert slurm.wait_for_end(submit(slurm, tmp_path, failing, "--ps=1")) == "FAILED"


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.slurm
def test_a_job_that_failed_is_started_again_as_often_as_asked(slurm, tmp_path):
    source = "import os, sys; print('restart', os.environ.get('SLURM_RESTART_COUNT')); sys.exit(3)"
    job_id = submit(slurm, tmp_path, source, "--restarts=1")
    assert slurm.wait_for_end(job_id) == "FAILED"
    lines = output(tmp_path, job_id).splitlines()
    attempts = [line for line in lines if line.startswith("Attempt")]
    assert attempts == [f"Attempt {number} of 2, on n1 n2" for number in (1, 2)]
    assert "keras-gpukit: the job goes back into the queue." in lines
    assert lines[-1] == "keras-gpukit: training failed; the first process that failed says why."
    assert any(line.endswith("Exited with exit code 3") for line in lines)


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.slurm
def test_a_node_that_was_killed_is_reported_by_name(slurm, tmp_path):
    # The first worker notices after a while that the other one is gone, as TensorFlow does.
    source = """
import os, time
print("started", flush=True)
time.sleep(8 if os.environ["SLURM_PROCID"] == "0" else 60)
raise SystemExit("the other worker stopped sending heartbeats")
"""
    job_id = submit(slurm, tmp_path, source)
    wait_for(lambda: output(tmp_path, job_id).count("started") == 2, what="both workers")
    slurm.kill_node("n2", job_id)
    report = "keras-gpukit: training failed: node n2 does not respond."
    try:
        wait_for(lambda: report in output(tmp_path, job_id), what="the report")
    finally:
        slurm.start_node("n2")
    # Slurm waits for the node before it calls a job of it ended.
    assert slurm.wait_for_end(job_id) == "FAILED"


@pytest.fixture(scope="module")
def guides(tmp_path_factory) -> tuple[str, str]:
    """The training script in the guide to Slurm, and its last line on one machine."""
    guide = (ROOT / "docs" / "guides" / "slurm.md").read_text()
    (script,) = re.findall(r"```python\n(.*?)```", guide, re.DOTALL)
    folder = tmp_path_factory.mktemp("one-machine")
    (folder / "train.py").write_text(script)
    variables = {name: value for name, value in environment().items() if name != "TF_CONFIG"}
    finished = prepared.run(folder / "train.py", env=variables, folder=folder, timeout=240)
    return script, finished.stdout.splitlines()[-1]


# In `make test`, test_multi_worker.py trains in two processes with the loss of one.
@pytest.mark.long
@pytest.mark.slow
@pytest.mark.slurm
def test_a_job_trains_on_both_nodes_with_the_loss_of_one_machine(slurm, tmp_path, guides):
    guides_script, loss_on_one_machine = guides
    job_id = submit(slurm, tmp_path, guides_script)
    assert slurm.wait_for_end(job_id, 240) == "COMPLETED", output(tmp_path, job_id)[-5000:]
    lines = output(tmp_path, job_id).splitlines()
    assert loss_on_one_machine.startswith("final loss 0.")
    losses = {line for line in lines if line[3:].startswith("final loss")}
    assert losses == {f"{worker}: {loss_on_one_machine}" for worker in range(2)}


@pytest.mark.long
def test_training_resumes_after_a_node_was_killed(slurm, tmp_path, guides):
    guides_script, loss_on_one_machine = guides
    job_id = submit(slurm, tmp_path, guides_script, "--restarts=1")
    wait_for(lambda: "0: Epoch 2/3" in output(tmp_path, job_id), 240, "the second epoch")
    slurm.kill_node("n2", job_id)
    try:
        report = "keras-gpukit: training failed: node n2 does not respond."
        wait_for(lambda: report in output(tmp_path, job_id), 240, "the report")
    finally:
        slurm.start_node("n2")
    assert slurm.wait_for_end(job_id, 240) == "COMPLETED", output(tmp_path, job_id)[-5000:]
    before, after = output(tmp_path, job_id).split("Attempt 2 of 2, on n1 n2\n")
    assert "0: Epoch 1/3" in before
    assert "0: Epoch 1/3" not in after
    assert f"0: {loss_on_one_machine}" in after.splitlines()
