"""The slices on a CPU, in small: a lent GPU is no place to find out that they fail."""

from pathlib import Path

import pytest
from helpers import prepared
from helpers.processes import ROOT, environment

from benchmarks.gpu.part import ORDER, error_of, load_part
from benchmarks.gpu.results import load, outcomes, save

MEASURED_SLICE = Path(__file__).parent / "cases" / "measured_slice.py"
STARTED = {"status": "running", "device": {"kind": "cpu"}, "small": True, "took_s": 0.0}


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("name", ORDER)
def test_a_slice_runs_on_a_cpu_and_proves_nothing(name, tmp_path):
    part, _, of_slice = name.partition(":")
    save(tmp_path, STARTED | {"part": part, "slice": of_slice, "measured": {}})
    packages = environment(
        PYTHONPATH=f"{environment()['PYTHONPATH']}:{ROOT}", TF_ENABLE_ONEDNN_OPTS="0"
    )
    prepared.run(MEASURED_SLICE, name, tmp_path, env=packages, timeout=300)
    result = load(tmp_path, name)
    assert result["status"] == "complete"
    failed = {case: error_of(value) for case, value in result["measured"].items()}
    assert set(failed.values()) == {None}, failed
    judged = outcomes(load_part(part), [result])
    assert {outcome.holds for outcome in judged.values()} <= {None}
