"""Python processes that a script starts: counted, named with the line, and monitored on request."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from helpers.processes import ROOT

from keras_gpukit.scripts.started_processes import in_words, is_python

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
import os, sys
print(sys.path, sys.argv, "sitecustomize" in sys.modules and sitecustomize.MINE, flush=True)
""".replace("sitecustomize.MINE", "sys.modules['sitecustomize'].MINE")


def run(folder, *options):
    (folder / "sweep.py").write_text(SWEEP)
    (folder / "child.py").write_text(CHILD)
    own = folder / "own"
    own.mkdir(exist_ok=True)
    (own / "sitecustomize.py").write_text("MINE = 'my own'\n")
    env = {**os.environ, "PYTHONPATH": f"{own}{os.pathsep}{ROOT}"}
    done = subprocess.run(
        [*RUN, *options, "sweep.py"],
        cwd=folder,
        env=env,
        capture_output=True,
        text=True,
        check=True,
    )
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


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ([sys.executable, "train.py"], True),
        ("CUDA_VISIBLE_DEVICES=0 python3 train.py", True),
        (["bash", "-c", "cd runs; python -m train"], True),
        (b"./train.py --lr 1", True),
        (["ls", "train.py"], False),
        ("ipython-config", False),
        ([], False),
    ],
)
def test_a_command_is_recognized_as_python(command, expected):
    assert is_python(command) is expected


def test_one_process_and_none_are_said_as_such():
    assert in_words({"os.system (a.py:3)": 1}, follows=False) == (
        "1 Python process was started by os.system (a.py:3); use --follow to monitor it."
    )
    assert in_words({}, follows=False) is None


@pytest.mark.tensorflow
@pytest.mark.slow
def test_followed_processes_have_a_record_each_and_one_conclusion(tmp_path):
    (tmp_path / "child.py").write_text(
        "import keras, numpy as np\n"
        "x = np.zeros((64, 4), 'float32')\n"
        "model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])\n"
        "model.compile('sgd', 'mse')\n"
        "model.fit(x, x[:, :1], verbose=0)\n"
    )
    (tmp_path / "sweep.py").write_text(
        "import subprocess, sys\n"
        "running = [subprocess.Popen([sys.executable, 'child.py']) for _ in range(2)]\n"
        "sys.exit(sum(each.wait() for each in running))\n"
    )
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [*RUN, "--follow", "sweep.py"], cwd=tmp_path, env=env, capture_output=True, check=True
    )
    found = sorted(each.parents[1].name for each in tmp_path.glob("logs/*/*/gpukit/run.jsonl"))
    assert found == ["child", "child-2"]
    assert b"2 fits were monitored" in done.stderr
    assert done.stderr.count(b"Verdict") == 1
