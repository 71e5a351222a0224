"""The parts on a CPU, in small: a lent GPU is no place to find out that they fail."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from gpu_kit.test_judges import PARTS
from helpers import prepared
from helpers.processes import ROOT, environment

from benchmarks.gpu.judging import error_of
from benchmarks.gpu.part import load_part
from benchmarks.gpu.results import load, outcomes
from benchmarks.gpu.runner import Runner
from keras_gpukit.profiling import read_profile

MEASURED_PART = Path(__file__).parent / "cases" / "measured_part.py"
STARTED = {"status": "running", "device": {"kind": "cpu"}, "small": True, "measured": {}}


def by_the_runner(name, folder):
    [result] = Runner(folder, STARTED["device"], minutes=10, small=True).run([name])
    return result


def by_itself(name, folder):
    started = json.dumps({"part": name, **STARTED})
    packages = environment(PYTHONPATH=f"{environment()['PYTHONPATH']}:{ROOT}")
    prepared.run(MEASURED_PART, started, folder, env=packages, timeout=300)
    return load(folder, name)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "run"),
    [("placement", by_the_runner), *((name, by_itself) for name in PARTS if name != "placement")],
)
def test_a_part_runs_on_a_cpu_and_proves_nothing(name, run, tmp_path):
    result = run(name, tmp_path)

    assert result["status"] == "complete", result["traceback"]
    failed = {name: error_of(value) for name, value in result["measured"].items()}
    assert set(failed.values()) == {None}, failed
    judged = outcomes(load_part(name), result)
    assert {outcome.holds for outcome in judged.values()} == {None}
    if name == "profiles":
        [kept] = (tmp_path / name).glob("*.xplane.pb.gz")
        unzipped = tmp_path / "kept.xplane.pb"
        unzipped.write_bytes(gzip.decompress(kept.read_bytes()))
        assert read_profile(unzipped).steps > 0
