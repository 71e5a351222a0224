"""Damaged and hostile profiles are read in part, or refused in words; nothing else happens."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from helpers.synthetic_xplane import gpu_behind_the_host, one_after_the_other

CASES = Path(__file__).parent / "cases"


@pytest.mark.long
def test_hundreds_of_damaged_profiles(tmp_path):
    # A fit of four steps on a CPU, captured with TensorFlow 2.21, its host's name taken out.
    recorded = gzip.decompress((CASES / "cpu.xplane.pb.gz").read_bytes())
    (tmp_path / "whole recorded.xplane.pb").write_bytes(recorded)
    for name, capture in (("a", one_after_the_other(gpus=2)), ("b", gpu_behind_the_host())):
        (tmp_path / f"whole {name}.xplane.pb").write_bytes(capture.space.SerializeToString())
    finished = subprocess.run(
        [sys.executable, str(CASES / "fuzzing.py"), str(tmp_path)],
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr[-3000:]
    told = json.loads(finished.stdout)
    assert told["read"] + told["incomplete"] + told["error"] == 3 * (75 + 100)
    assert told["incomplete"] > 100
    assert told["error"] > 5
    # Those that hold nothing else than much that is of no use are read whole.
    assert (told["bomb incomplete"], told["bomb read"]) == (6, 4)
    assert told["peak_bytes"] < 1 << 30
