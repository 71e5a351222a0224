"""A script that knows nothing of this package under `run`, and Python processes that it starts."""

import os
import subprocess
import sys

import pytest
from helpers import prepared
from helpers.processes import ROOT
from unchanged_scripts import DURATIONS, SCRIPTS

from keras_gpukit.scripts.started_processes import StartedProcesses, is_python

RUN = (sys.executable, "-m", "keras_gpukit", "run")
SWEEP = """
import multiprocessing, subprocess, sys

def work():
    pass

if __name__ == "__main__":
    for _ in range(2):
        subprocess.run([sys.executable, "child.py"])
    subprocess.run(["true"])
    process = multiprocessing.get_context("spawn").Process(target=work)
    process.start()
    process.join()
"""
CHILD = """
import sys
print(sys.path, sys.argv, sys.modules["sitecustomize"].MINE, flush=True)
"""


def run(folder, *options):
    (folder / "sweep.py").write_text(SWEEP)
    (folder / "child.py").write_text(CHILD)
    own = folder / "own"
    own.mkdir(exist_ok=True)
    (own / "sitecustomize.py").write_text("MINE = 'my own'\n")
    return ended(folder, *options, path=f"{own}{os.pathsep}{ROOT}")


def ended(folder, *options, path=str(ROOT)):
    """What a sweep printed."""
    env, command = {**os.environ, "PYTHONPATH": path}, [*RUN, *options, "sweep.py"]
    texts = {"capture_output": True, "text": True}
    done = subprocess.run(command, cwd=folder, env=env, check=True, **texts)
    return done.stdout, done.stderr


def test_processes_are_named_with_their_line_and_a_child_without_keras_notices_nothing(tmp_path):
    printed, said = run(tmp_path)
    assert said.splitlines() == [
        "keras-gpukit run: this script loaded no Keras, so nothing was monitored.",
        "3 Python processes were started by subprocess.run (sweep.py:9) and others; use --follow "
        "to monitor them.",
    ]
    followed, said = run(tmp_path, "--follow")
    assert followed == printed
    assert printed.count("my own") == 2
    assert "use --follow" not in said
    assert not (tmp_path / "logs").exists() or not any((tmp_path / "logs").iterdir())


def test_a_command_is_recognized_as_python():
    by_a_shell = (["bash", "-c", "cd runs; python -m train"], "NO_COLOR=1 python3 train.py")
    for command in ([sys.executable, "train.py"], *by_a_shell, b"./train.py --lr 1"):
        assert is_python(command)
    for command in (["ls", "train.py"], "ipython-config", []):
        assert not is_python(command)


def test_one_process_and_none_are_said_as_such():
    said = "1 Python process was started by os.system (a.py:3); use --follow to monitor it."
    started = StartedProcesses()
    assert started.sentence(follows=False) is None
    started.counts["os.system (a.py:3)"] += 1
    assert started.sentence(follows=False) == said


@pytest.mark.tensorflow
@pytest.mark.slow
def test_followed_processes_have_a_record_each_and_one_conclusion(tmp_path):
    (tmp_path / "child.py").write_text(
        "import keras, numpy as np\n"
        "x = np.zeros((64, 4), 'float32')\n"
        "model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])\n"
        "model.compile('sgd', 'mse', jit_compile=False)\n"
        "model.fit(x, x[:, :1], verbose=0)\n"
    )
    (tmp_path / "sweep.py").write_text(
        "import subprocess, sys\n"
        "running = [subprocess.Popen([sys.executable, 'child.py']) for _ in range(2)]\n"
        "sys.exit(sum(each.wait() for each in running))\n"
    )
    _, said = ended(tmp_path, "--follow")
    found = sorted(each.parents[1].name for each in tmp_path.glob("logs/*/*/gpukit/run.jsonl"))
    assert found == ["child", "child-2"]
    assert "2 fits were monitored" in said
    assert said.count("Verdict") == 1


SCRIPT = str(SCRIPTS / "functional_classifier.py")


@pytest.mark.tensorflow
@pytest.mark.slow
def test_losses_and_output_are_the_same_and_the_verdict_comes_on_top(tmp_path):
    arguments = (SCRIPT, "--epochs", "2", "--batch-size=64")
    ours = ("--log-dir", "runs", "--memory", "growth", "--mixed-precision", "float32", "--open")
    variables = {"PYTHONPATH": str(ROOT), "COLUMNS": "100", "BROWSER": "echo opened %s"}
    env = {**os.environ, **variables}
    expected = prepared.run(*arguments, env=env, folder=tmp_path).stdout.encode()
    command = [sys.executable, "-m", "keras_gpukit", "run", *ours, *arguments]
    watched = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, check=True)
    printed, reported = watched.stdout, watched.stderr
    assert b"'val_loss': [" in expected
    assert DURATIONS.sub(b"", printed) == DURATIONS.sub(b"", expected)
    (report,) = tmp_path.glob("runs/functional_classifier-*/report.html")
    in_order = [b"GPU setup", b"36 steps", b"Report: runs/", f"opened {report.as_uri()}".encode()]
    places = [reported.index(each) for each in in_order]
    assert places == sorted(places)
    assert (report.parent / "digits" / "gpukit" / "run.jsonl").is_file()
    assert b"digits" in report.read_bytes()
