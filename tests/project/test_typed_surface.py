"""A user's script is checked against the package's types, as strictly as mypy can."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import keras_gpukit

SCRIPT = """
from typing import Any

from typing_extensions import assert_type

import keras_gpukit as gpukit
from keras_gpukit.profiling import read_profile
from keras_gpukit.records import ProfileRecord, RunSummary


class Mine(gpukit.Monitor):
    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        super().on_epoch_end(epoch, logs)


def train(model: Any, dataset: Any) -> list[str]:
    setup = gpukit.configure_gpus(mixed_precision="auto")
    assert_type(setup, gpukit.GPUSetup)
    assert_type(setup.warnings, tuple[str, ...])
    monitor = gpukit.Monitor("logs", verbose=1)
    model.fit(dataset, callbacks=[monitor, Mine(None)])
    summary = monitor.summary
    assert_type(summary, RunSummary | None)
    if summary is None:
        return []
    assert_type(summary.input_stall_fraction, float | None)
    assert_type(read_profile("host.xplane.pb"), ProfileRecord)
    tuned = gpukit.tune_input(dataset)
    assert_type(tuned, gpukit.TunedInput)
    return [f"{each.code}: {each.title}" for each in summary.findings]


gpukit.Monitor(logdir="logs")
"""


@pytest.mark.slow
@pytest.mark.long  # half a minute; `make lint` checks the package itself
def test_a_users_script_is_checked_and_a_wrong_argument_is_found(tmp_path):
    root = Path(keras_gpukit.__file__).parents[1]
    assert (root / "keras_gpukit" / "py.typed").exists()
    (tmp_path / "script.py").write_text(SCRIPT)
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent", "script.py"],
        cwd=tmp_path,
        # mypy finds what is installed by itself, and refuses to be pointed there.
        env={**os.environ, "MYPYPATH": "" if root.name == "site-packages" else str(root)},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    *errors, summary = done.stdout.splitlines()
    wrong = 'error: Unexpected keyword argument "logdir" for "Monitor"'
    assert [each for each in errors if wrong not in each and ": note:" not in each] == []
    assert summary.startswith("Found 1 error"), done.stderr
