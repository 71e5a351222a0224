"""The action for CI and the skill for agents: their commands as they are, over a short training."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from helpers.processes import ROOT, environment

ACTION = yaml.safe_load((ROOT / "action.yml").read_text("utf-8"))
SKILL = (ROOT / "skills" / "keras-gpukit" / "SKILL.md").read_text("utf-8")
TRAIN = """
import sys, keras, numpy as np
model = keras.Sequential([keras.layers.Dense(1)])
model.compile("sgd", "mse", jit_compile=False)
model.fit(np.ones((320, 4)), np.ones((320, 1)), epochs=int([*sys.argv, 2][1]), verbose=0)
"""
pytestmark = [pytest.mark.slow, pytest.mark.heavy]


@pytest.fixture
def bash(tmp_path):
    """Runs commands as a step of a job does, next to `train.py`."""
    (tmp_path / "train.py").write_text(TRAIN)
    path = os.pathsep.join((str(tmp_path / "bin"), str(Path(sys.executable).parent)))

    def run(commands: str, **variables: str):
        return subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", commands],
            env=environment(PATH=f"{path}{os.pathsep}{os.environ['PATH']}", **variables),
            cwd=tmp_path,
            capture_output=True,
            text=True,
        )

    return run


@pytest.fixture
def act(bash, tmp_path):
    """Runs the action's steps, and returns the exit code, the summary and the folder of runs."""
    python, summary, output = (tmp_path / name for name in ("bin/python", "summary.md", "output"))
    python.parent.mkdir()
    # Installing would replace what is tested.
    python.write_text('#!/bin/sh\necho "$@" > "$RUNNER_TEMP/installed"\n')
    python.chmod(0o755)
    files = {"GITHUB_OUTPUT": str(output), "GITHUB_STEP_SUMMARY": str(summary)}
    folders = {"RUNNER_TEMP": str(tmp_path), "GITHUB_ACTION_PATH": str(ROOT)}

    def run(**given: str):
        inputs = {name: each.get("default", "") for name, each in ACTION["inputs"].items()} | given
        values = {f"inputs.{name}": value for name, value in inputs.items()}
        summary.write_text("")
        for step in ACTION["runs"]["steps"]:
            variables = {
                name: re.sub(r"\$\{\{ (.*?) \}\}", lambda found: values[found[1]], text)
                for name, text in step.get("env", {}).items()
            }
            done = bash(step["run"], **files, **folders, **variables)
            if done.returncode:
                break
            if "id" in step:
                line = output.read_text().splitlines()[-1]
                values["steps.run.outputs.runs"] = line.removeprefix("runs=")
        return done.returncode, summary.read_text() or done.stderr, values["steps.run.outputs.runs"]

    return run


# In `make test`, the commands of both are run by tests/cli, and the blocks of the docs as they are.
@pytest.mark.long
def test_the_action_compares_with_another_script_and_with_an_earlier_job(act, tmp_path):
    same = {"fail-on": "steps<-5%\n\nsteps>+5%\n"}
    code, summary, runs = act(script="train.py 3", baseline="train.py 3", **same)
    assert (code, Path(runs, "report.html").exists()) == (0, True), summary
    assert (tmp_path / "installed").read_text().endswith(f" {ROOT}\n")
    assert "passed: steps<-5%" in summary
    assert "| figure |" in summary

    code, summary, _ = act(script="train.py 2", baseline=runs, **same)
    assert (code, "failed: steps<-5%: -33" in summary) == (1, True), summary

    code, summary, runs = act(script="train.py 2", baseline="not-there", repeats="2")
    assert (code, sorted(os.listdir(runs))) == (0, ["report.html", "run-1", "run-2"])
    assert "there is no baseline 'not-there'" in summary


@pytest.mark.long
def test_the_skill_s_commands_run_one_after_another(bash):
    assert len(SKILL.splitlines()) < 80
    commands = re.findall(r"```bash\n(.*?)```", SKILL, re.DOTALL)
    done = bash("".join(commands))
    assert (len(commands), done.returncode) == (4, 0), done.stderr
