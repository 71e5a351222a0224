"""Which changes suit a model, and `tune` on real trainings in processes of their own."""

import json
import multiprocessing
import os
import signal
import subprocess
import sys
from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf
from helpers.json_output import valid_json
from helpers.processes import environment, wait_for
from helpers.training import arrays, small_model

import keras_gpukit as gpukit
from keras_gpukit.records import GPUInfo
from keras_gpukit.tuning.made_changes import with_batches_of
from keras_gpukit.tuning.training_changes import propose

CASE = Path(__file__).parent / "cases" / "tiny.py"


def command(*arguments, **options):
    full = [sys.executable, "-m", "keras_gpukit", "tune", *map(str, arguments)]
    options |= {"capture_output": True, "text": True, "timeout": 300, "check": False}
    return subprocess.run(full, env=environment(COLUMNS="200"), **options)


@pytest.mark.heavy
def test_a_script_is_tuned_from_outside(tmp_path):
    written = tmp_path / "written"
    wanted = ("--minutes", "0.5", "--try", "steps-per-execution", "--json")
    done = command(*wanted, CASE, written, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    found = valid_json("tune", done.stdout)
    assert found["subject"] == "tiny.py"
    assert found["rate"]["unit"] == "examples/s"
    (tried,) = found["trials"]
    assert tried["change"] == "steps-per-execution"
    assert tried["gain"] > 0
    (line,) = tried["lines"]
    assert line["before"] == "compile(...)"
    assert line["after"].startswith("compile(..., steps_per_execution=")
    assert line["location"].startswith("tiny.py:")
    assert not written.exists()


@pytest.mark.long
def test_functions_are_tuned_in_processes_that_import_them():
    found = gpukit.tune(small_model, arrays(40), changes=["jit"], minutes=0.5, verbose=0)
    (tried,) = found.trials
    assert tried.change == "jit"
    assert tried.gain is not None, tried.note
    assert tried.first_step_s > 0
    assert multiprocessing.active_children() == []


@pytest.mark.long
@pytest.mark.heavy
def test_a_script_that_cannot_be_measured_says_why(tmp_path):
    script = tmp_path / "train.py"
    script.write_text("import keras\nprint('no training here')\n")
    done = command(script)
    assert done.returncode == 2
    assert "cannot be measured: the script called no fit()" in done.stderr
    script.write_text("raise OSError('no such data')\n")
    assert "OSError: no such data" in command(script).stderr


WAITS_WHEN_CHANGED = f"""
import os, sys, time
from pathlib import Path
unchanged, changed = Path("unchanged"), Path("changed")
if unchanged.exists():
    changed.write_text(str(os.getpid()))
    time.sleep(600)
unchanged.touch()
sys.path.insert(0, {str(CASE.parent)!r})
import tiny

tiny.build().fit(*tiny.data(), batch_size=4, epochs=5)
"""


@pytest.mark.long
@pytest.mark.slow
def test_ctrl_c_while_a_change_is_tried_keeps_what_is_known(tmp_path):
    (tmp_path / "train.py").write_text(WAITS_WHEN_CHANGED)
    asked = [sys.executable, "-m", "keras_gpukit", "tune", "--try", "jit", "--json", "train.py"]
    options = {"env": environment(), "cwd": tmp_path, "stdout": subprocess.PIPE}
    started = subprocess.Popen(asked, start_new_session=True, **options)
    changed = tmp_path / "changed"
    number = int(wait_for(lambda: changed.exists() and changed.read_text(), 240))
    os.killpg(started.pid, signal.SIGINT)  # as a terminal does
    output, _ = started.communicate(timeout=60)
    assert started.returncode == 130
    found = json.loads(output)
    assert found["ending"] == "interrupted"
    assert found["rate"]["median"] > 0
    with pytest.raises(ProcessLookupError):
        os.kill(number, 0)


def test_what_cannot_be_tried_is_refused():
    done = command("--try", "no-gpu", CASE)
    assert done.returncode == 2
    assert "no change to try for 'no-gpu'" in done.stderr
    with pytest.raises(TypeError, match="`build` must be a function"):
        gpukit.tune(small_model(), ())
    with pytest.raises(ValueError, match="`minutes` must be a number above 0"):
        gpukit.tune(small_model, (), minutes=0)
    with pytest.raises(ValueError, match="another process can import"):
        gpukit.tune(lambda: None, ())


X, Y = arrays(4)  # 64 examples
A100 = GPUInfo(0, "NVIDIA A100", compute_capability=(8, 0))


def arguments(x=X, **given):
    defaults = {"batch_size": None, "validation_split": 0.0, "steps_per_epoch": None}
    return {"x": x, **defaults, **given}


def proposed(model=None, given=None, step_s=0.001, gpus=()):
    found = propose(model or small_model(), given or arguments(), step_s, gpus)
    return {each.name: each for each in found}


def test_arrays_and_a_graph():
    found = proposed()
    of_steps = {"jit", "steps-per-execution", "mixed-precision"}
    assert set(found) == {"input", *of_steps, "memory-pool", "batch-size"}
    assert "neither a tf.data pipeline" in found["input"].blocked
    assert found["jit"].compiled == {"jit_compile": True}
    assert found["batch-size"].batch_size == 64  # all there are, instead of 128
    assert found["steps-per-execution"].compiled == {"steps_per_execution": 2}  # an epoch's
    assert not found["mixed-precision"].by_default  # on a CPU


def test_what_is_so_already_and_long_steps_are_left_and_a_gpu_gets_its_precision():
    found = proposed(small_model(jit_compile=True, steps_per_execution=4))
    assert "jit" not in found
    assert found["no-jit"].compiled == {"jit_compile": False}
    assert found["steps-per-execution"].blocked == "4 steps make one execution already"
    assert "graph" in proposed(small_model(run_eagerly=True))
    found = proposed(step_s=0.2, gpus=(A100,))
    assert found["steps-per-execution"].blocked == "starting a step takes little of its 200 ms"
    assert found["mixed-precision"].policy == "mixed_bfloat16"
    assert found["mixed-precision"].by_default


@pytest.mark.parametrize("drop", [False, True])
def test_the_batches_of_a_pipeline_get_another_size(drop):
    pipeline = tf.data.Dataset.range(100).batch(8, drop_remainder=drop).prefetch(2).repeat(3)
    found = proposed(given=arguments(pipeline))
    assert found["input"].blocked == ""
    assert found["batch-size"].batch_size == 32
    sizes = [len(each) for each in with_batches_of(pipeline, 32)]
    assert sizes == 3 * ([32, 32, 32] if drop else [32, 32, 32, 4])


def test_a_py_dataset_makes_its_own_batches():
    class Batches(keras.utils.PyDataset):
        def __len__(self):
            return 2

        def __getitem__(self, index):
            return np.ones((4, 8)), np.ones((4, 1))

    found = proposed(given=arguments(Batches()))
    assert "cannot be changed from outside" in found["batch-size"].blocked
