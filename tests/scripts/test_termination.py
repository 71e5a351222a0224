"""SIGTERM, as a scheduler sends it before SIGKILL: the record is finished, all else is as plain."""

import json
import signal
import subprocess
import sys

import pytest
from helpers.launches import wait_for
from helpers.processes import environment

FIT = """
import signal, sys, time
import keras
import numpy as np

def stop(number, frame):
    print("saved")
    sys.exit(3)

if "handles" in sys.argv:
    signal.signal(signal.SIGTERM, stop)

def batches():
    for number in range(100_000):
        if number == 40 and "blocks" in sys.argv:
            time.sleep(1000)
        time.sleep(0.05)
        yield np.zeros((8, 4), "float32"), np.zeros((8, 1), "float32")

model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
model.compile("sgd", "mse", jit_compile=False)
model.fit(batches(), steps_per_epoch=100_000, verbose=0)
"""


def terminated(folder, argument, steps):
    """Ends a run by SIGTERM after some steps: its exit code, output, errors and last record."""
    (folder / "script.py").write_text(FIT)
    command = [sys.executable, "-m", "keras_gpukit", "run", "script.py", argument]
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "cwd": folder}
    process = subprocess.Popen(command, env=environment(COLUMNS="100"), **options)

    def lines():
        record = folder.glob("logs/script-*/*/gpukit/run.jsonl")
        return [json.loads(line) for path in record for line in path.read_text().splitlines()]

    wait_for(lambda: [line for line in lines() if (line["step"] or 0) >= steps], timeout_s=120)
    process.terminate()
    output, errors = process.communicate(timeout=60)
    return process.returncode, output, errors, lines()[-1]


@pytest.mark.slow
@pytest.mark.tensorflow
def test_a_run_that_waits_for_input_is_finished_and_ends_by_the_signal(tmp_path):
    code, _, errors, last = terminated(tmp_path, "blocks", 30)
    assert (code, last["kind"]) == (-signal.SIGTERM, "summary")
    assert last["record"]["ending"] == "interrupted"
    assert last["record"]["ended_by"].startswith("SIGTERM after step ")
    assert "Report: logs/script-" in errors
    assert "SIGTERM after step" in errors
    assert list(tmp_path.glob("logs/script-*/report.html"))


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.tensorflow
def test_the_scripts_own_handler_and_exit_code_are_kept(tmp_path):
    code, output, errors, last = terminated(tmp_path, "handles", 5)
    assert (code, output) == (3, "saved\n")
    assert last["record"]["ending"] == "interrupted"
    assert "Report: " in errors


# A fork ends as it would, and does not end its parent.
FORKS = """
child = os.fork()
if not child:
    signal.pause()
time.sleep(0.3)
os.kill(child, signal.SIGTERM)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
# A handler of the script that calls the one before it.
CHAINED = """
before = signal.getsignal(signal.SIGTERM)
signal.signal(signal.SIGTERM, lambda *arguments: (before(*arguments), print("handled")))
os.kill(os.getpid(), signal.SIGTERM)
time.sleep(0.3)
"""
ENDS = "os.kill(os.getpid(), signal.SIGTERM)\ntime.sleep(20)\n"
# What finishes the record must not keep the process.
STUCK = f"termination.WITHIN_S = 0.2\nended.append(lambda: time.sleep(20))\n{ENDS}"


@pytest.mark.parametrize(
    ("source", "printed", "code"),
    [(FORKS, "-15\n", 0), (CHAINED, "handled\n", 0), (ENDS, "finished\n", -15), (STUCK, "", -15)],
)
def test_the_signal_does_what_it_would(source, printed, code):
    head = """
import os, signal, time
from keras_gpukit.scripts import termination

ended = []
finish = lambda: ([action() for action in ended], print("finished", flush=True))
termination.Termination(finish).install()
"""
    command, options = [sys.executable, "-c", head + source], {"timeout": 60, "check": False}
    done = subprocess.run(command, capture_output=True, text=True, **options)
    assert (done.stdout, done.returncode) == (printed, code), done.stderr
