"""A training script that knows nothing of this package, under Python and under `run`."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from helpers import prepared
from helpers.processes import ROOT
from unchanged_scripts import DURATIONS, SCRIPTS

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
