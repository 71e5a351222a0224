"""Rules on workers, on two real ones in which the cause is planted."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from helpers.clusters import LocalCluster

from keras_gpukit.records import (
    DeviceMemory,
    GPUInfo,
    GPUUtilization,
    MemoryRecord,
    RunSummary,
    UtilizationRecord,
    from_dict,
)
from keras_gpukit.rules import judge

pytestmark = pytest.mark.long
CASE = Path(__file__).parent / "cases" / "planted_shards.py"
MOST, LEAST, GLOBAL_BATCH = 960, 320, 32


@pytest.fixture(scope="module")
def runs(tmp_path_factory) -> dict[str, list[RunSummary]]:
    """By name, what each worker recorded, the chief first."""
    folder = tmp_path_factory.mktemp("shards")
    with LocalCluster(CASE, [folder], folder / "logs_of_tasks", workers=2) as cluster:
        assert cluster.finish() == [0, 0], cluster.outputs()
    return {
        name: [
            from_dict(json.loads((folder / f"{name}{index}.json").read_text()), RunSummary)
            for index in range(2)
        ]
        for name in ("uneven", "even")
    }


def test_files_of_different_size_give_uneven_shards(runs):
    chief = runs["uneven"][0]
    (finding,) = (each for each in chief.findings if each.code == "uneven-shards")
    figures = {each.name: each.value for each in finding.evidence}
    # By the steps that were measured, to which the first one does not belong.
    expected = {"examples of worker 0": MOST, "examples of worker 1": LEAST}
    assert figures == pytest.approx(expected, rel=0.1)
    # The run takes the steps of the larger file, each of half of the global batch.
    assert chief.steps == pytest.approx(MOST / (GLOBAL_BATCH / 2), abs=1)
    assert "uneven-shards" in runs["even"][0].verdict.passed
    assert finding.saving.high_s > 0
    assert finding.saving.upper_bound


def test_one_gpus_batch_is_shared_by_two_replicas(runs):
    """The batch, the steps and the replicas are real; this machine has no GPU to read."""
    chief = runs["even"][0]
    idle = GPUUtilization(0, utilization_percent=20.0)
    seen = replace(
        chief,
        environment=replace(chief.environment, gpus=(GPUInfo(0, "GPU"),)),
        utilization=replace(
            chief.utilization or UtilizationRecord(60, 1.0), samples=60, gpus=(idle,)
        ),
        memory=MemoryRecord((DeviceMemory("GPU:0", 2**30, 2**30, 2**34),)),
    )
    (finding,) = (each for each in judge(seen).findings if each.code == "batch-not-scaled")
    assert finding.title == f"Each of 2 replicas gets only {GLOBAL_BATCH // 2} examples a step"
