"""Rules on workers, on two real ones in which the cause is planted."""

import json
from pathlib import Path

import pytest
from helpers.clusters import LocalCluster

from keras_gpukit.records import RunSummary, from_dict

CASE = Path(__file__).parent / "cases" / "planted_shards.py"
MOST, LEAST, GLOBAL_BATCH = 960, 320, 32


@pytest.mark.long
def test_files_of_different_size_give_uneven_shards(tmp_path):
    with LocalCluster(CASE, [tmp_path], tmp_path / "logs_of_tasks", workers=2) as cluster:
        assert cluster.finish() == [0, 0], cluster.outputs()
    texts = [(tmp_path / f"{name}0.json").read_text() for name in ("uneven", "even")]
    chief, even = (from_dict(json.loads(text), RunSummary) for text in texts)
    (finding,) = (each for each in chief.findings if each.code == "uneven-shards")
    figures = {each.name: each.value for each in finding.evidence}
    # By the steps that were measured, to which the first one does not belong.
    expected = {"examples of worker 0": MOST, "examples of worker 1": LEAST}
    assert figures == pytest.approx(expected, rel=0.1)
    # The run takes the steps of the larger file, each of half of the global batch.
    assert chief.steps == pytest.approx(MOST / (GLOBAL_BATCH / 2), abs=1)
    assert "uneven-shards" in even.verdict.passed
    assert finding.saving.high_s > 0
    assert finding.saving.upper_bound
