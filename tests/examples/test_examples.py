"""Each example runs to its end, prints a verdict, and leaves the record of a run."""

import os
import subprocess
import sys

import pytest
from helpers import prepared
from helpers.processes import ROOT, environment

from keras_gpukit import load_report

EXAMPLES = ROOT / "examples"
LAUNCHED = "multi_worker.py"
ALONE = sorted({path.name for path in EXAMPLES.glob("*.py")} - {LAUNCHED})
IN_SHORT = ("custom_train_step.py", "two_gpus.py")
"""Run by `make test`. Of the others, test_docs_code.py looks at the names and arguments there."""

pytestmark = pytest.mark.heavy


def recorded(folder):
    """The summaries of the completed runs under a folder's logs."""
    runs = load_report(folder / "logs").runs
    assert {run.state for run in runs} == {"completed"}
    return [run.summary for run in runs]


@pytest.mark.parametrize(
    "name",
    [name if name in IN_SHORT else pytest.param(name, marks=pytest.mark.long) for name in ALONE],
)
def test_an_example_ends_with_a_verdict_and_a_record(name, tmp_path):
    printed = prepared.run(
        EXAMPLES / name, folder=tmp_path, env=environment(TMPDIR=str(tmp_path))
    ).stdout
    runs = recorded(tmp_path)
    assert printed.count("Verdict") == len(runs)
    assert all(run.steps >= 50 and run.input_stall_fraction is not None for run in runs)
    if name == "two_gpus.py":
        assert "2 replicas" in printed


# In `make test`, two workers train in test_multi_worker.py.
@pytest.mark.long
def test_several_workers_end_with_a_verdict_and_a_record_each(tmp_path):
    variables = environment(PYTHONPATH=os.pathsep.join((str(ROOT), str(ROOT / "tests"))))
    launch = [sys.executable, "-m", "keras_gpukit", "launch", "--workers", "2"]
    finished = subprocess.run(
        [*launch, "--gpus-per-worker", "0", EXAMPLES / LAUNCHED],
        cwd=tmp_path,
        env=variables,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr[-3000:]
    runs = recorded(tmp_path)
    assert finished.stdout.count("Verdict") == 1  # that of the chief, on both
    assert len(runs) == 2
    assert max(len(run.workers.members) for run in runs if run.workers) == 2


def test_each_example_is_listed_and_has_its_command():
    table = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    for path in (*EXAMPLES.glob("*.py"), *EXAMPLES.glob("*.ipynb")):
        assert f"[`{path.name}`]({path.name})" in table
        if path.suffix == ".py":
            assert f"examples/{path.name}\n" in path.read_text(encoding="utf-8")
