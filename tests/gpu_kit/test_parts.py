"""The parts on a CPU, in small: a lent GPU is no place to find out that they fail."""

from __future__ import annotations

import gzip

import pytest
from gpu_kit.test_judges import PARTS

from benchmarks.gpu.judging import error_of
from benchmarks.gpu.runner import Runner
from keras_gpukit.profiling import read_profile


@pytest.mark.slow
@pytest.mark.parametrize("name", PARTS)
def test_a_part_runs_on_a_cpu_and_proves_nothing(name, tmp_path):
    [result] = Runner(tmp_path, {"kind": "cpu"}, minutes=10, small=True).run([name])

    assert result["status"] == "complete", result["traceback"]
    failed = {name: error_of(value) for name, value in result["measured"].items()}
    assert set(failed.values()) == {None}, failed
    assert {outcome["holds"] for outcome in result["outcomes"].values()} == {None}
    if name == "profiles":
        [kept] = (tmp_path / name).glob("*.xplane.pb.gz")
        unzipped = tmp_path / "kept.xplane.pb"
        unzipped.write_bytes(gzip.decompress(kept.read_bytes()))
        assert read_profile(unzipped).steps > 0
