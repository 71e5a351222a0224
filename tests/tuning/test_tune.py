"""`tune` and its command, on real trainings in processes of their own."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from helpers.json_output import valid_json
from helpers.processes import environment, wait_for
from helpers.training import arrays, small_model

import keras_gpukit as gpukit

CASE = Path(__file__).parent / "cases" / "tiny.py"


def command(*arguments, **options):
    return subprocess.run(
        [sys.executable, "-m", "keras_gpukit", "tune", *map(str, arguments)],
        env=environment(COLUMNS="200"),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        **options,
    )


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
    started = subprocess.Popen(
        asked, env=environment(), cwd=tmp_path, stdout=subprocess.PIPE, start_new_session=True
    )
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
    with pytest.raises(ValueError, match="another process can import"):
        gpukit.tune(lambda: None, ())
