"""`keras-gpukit launch` for clusters: what is printed, submitted and refused."""

import json
import subprocess
import sys

import pytest
import yaml
from helpers.processes import environment

from keras_gpukit.cli.main import main

JOB = ("launch", "--workers=2", "--gpus-per-worker=0")
STARTED = ["python", "-m", "keras_gpukit.scripts.launched_script"]
IMAGE = "--image=registry.example/train:1"


def launch(capsys, *words: str) -> str:
    assert main([*JOB, *words]) == 0
    return capsys.readouterr().out


def kinds_in(manifest: str) -> list[str]:
    return [each["kind"] for each in yaml.safe_load_all(manifest)]


@pytest.mark.parametrize(
    ("words", "kinds"),
    [
        ((IMAGE, "--kubernetes=trainjob"), ["TrainingRuntime", "TrainJob"]),
        ((IMAGE, "--kubernetes"), ["TrainingRuntime", "TrainJob"]),
        ((IMAGE, "--kubernetes=job"), ["Service", "Job"]),
        # The kind may be a word of its own.
        (("--kubernetes", "job", "--image", "r/i:1"), ["Service", "Job"]),
        (("--image", "r/i:1", "--kubernetes", "job"), ["Service", "Job"]),
    ],
)
@pytest.mark.parametrize("script", [("train.py",), ("-m", "team.train")], ids=" ".join)
def test_a_manifest_is_printed(words, kinds, script, capsys):
    manifest = launch(capsys, *words, *script, "--kubernetes")
    assert kinds_in(manifest) == kinds
    assert f"command: {json.dumps([*STARTED, *script, '--kubernetes'])}" in manifest


def test_a_batch_script_is_printed_and_runs_this_interpreter(capsys):
    script = launch(capsys, "--slurm", "--name=mine", "-m", "team.train", "--epochs", "2")
    assert script.startswith("#!/bin/bash\n")
    assert "#SBATCH --job-name=mine\n" in script
    command = "-m keras_gpukit.scripts.launched_script -m team.train --epochs 2"
    assert f"{sys.executable} {command}" in script
    # Volume and shared memory reach a manifest.
    words = ("--kubernetes=job", "--volume=data:/data", "--shared-memory", "1Gi", IMAGE)
    _, job = yaml.safe_load_all(launch(capsys, *words, "train.py"))
    volumes = job["spec"]["template"]["spec"]["volumes"]
    assert volumes[0]["emptyDir"]["sizeLimit"] == "1Gi"
    assert volumes[1]["persistentVolumeClaim"] == {"claimName": "data"}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--kubernetes",), "--kubernetes needs --image"),
        (("--kubernetes=pods", IMAGE), "invalid choice: 'pods'"),
        (("--kubernetes", "--slurm", IMAGE), "not allowed with argument"),
        (("--submit",), "--submit needs --slurm or --kubernetes"),
        ((IMAGE,), "need --kubernetes"),
        (("--slurm", "--volume=data:/data"), "need --kubernetes"),
        (("--slurm", "--grace=10"), "--timeout and --grace work on this machine only"),
        (("--kubernetes", IMAGE, "--volume=data"), "not a CLAIM:PATH"),
        (("--kubernetes", IMAGE, "--log-dir=logs"), "kubectl logs"),
        (("--slurm", "--monitor"), "--monitor works on this machine only"),
        (("--slurm", "--name=my job"), "Received: name='my job'"),
    ],
)
def test_what_does_not_fit_together_is_refused(words, message, capsys):
    with pytest.raises(SystemExit, match="2"):
        main([*JOB, *words, "train.py"])
    assert message in capsys.readouterr().err


def test_a_kind_alone_is_no_script(capsys):
    with pytest.raises(SystemExit):
        main([*JOB, IMAGE, "--kubernetes", "job"])
    assert "Give the SCRIPT to run, or -m MODULE" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "program"), [(("--slurm",), "sbatch"), (("--kubernetes", IMAGE), "kubectl")]
)
def test_submitting_says_which_program_is_missing(words, program, capsys, monkeypatch):
    monkeypatch.setenv("PATH", "")
    assert main([*JOB, *words, "--submit", "train.py"]) == 2
    error = capsys.readouterr().err
    assert f"--submit needs {program}, which this machine does not have" in error


def test_kubectl_gets_the_manifest_and_its_exit_code_is_ours(tmp_path, capsys):
    kubectl = tmp_path / "kubectl"
    kubectl.write_text('#!/bin/sh\necho "$@" > "$OUT/arguments"\ncat > "$OUT/manifest"\nexit 3\n')
    kubectl.chmod(0o755)
    words = [*JOB, "--kubernetes", IMAGE]
    finished = subprocess.run(
        [sys.executable, "-m", "keras_gpukit", *words, "--submit", "train.py"],
        env=environment(PATH=f"{tmp_path}:/bin:/usr/bin", OUT=str(tmp_path)),
        check=False,
    )
    assert finished.returncode == 3
    assert (tmp_path / "arguments").read_text() == "apply -f -\n"
    assert (tmp_path / "manifest").read_text() == launch(capsys, "--kubernetes", IMAGE, "train.py")
