"""A peak that the first step alone reached is told apart; only GPUs try algorithms in it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from keras_gpukit.records.environment import Environment
from keras_gpukit.records.machine import DeviceMemory, MemoryRecord
from keras_gpukit.records.memory import MemoryByCause, MemoryPrediction
from keras_gpukit.records.run import RunSummary
from keras_gpukit.rules import judge

GIB = 2**30
CODE = "first-step-memory"
GPU = DeviceMemory("GPU:0", 2 * GIB, 12 * GIB, 16 * GIB, 12 * GIB, 7 * GIB, 40)


PREDICTED = MemoryPrediction(64, low=MemoryByCause(GIB), high=MemoryByCause(8 * GIB))


def judged(*devices, prediction=PREDICTED):
    memory = MemoryRecord(devices, prediction=prediction)
    return judge(RunSummary(Environment({}), memory=memory))


def test_it_says_what_the_first_step_took_and_what_was_seen_later():
    (found,) = (each for each in judged(GPU).findings if each.code == CODE)
    assert found.severity == "info"
    assert [(figure.name, figure.value) for figure in found.evidence] == [
        ("first step on GPU:0", 12 * GIB),
        ("most seen later", 7 * GIB),
        ("in readings", 40),
        ("a step predicted to need at most", 8 * GIB),
    ]


@pytest.mark.parametrize(
    "change",
    [
        {"peak_bytes": 13 * GIB},  # a later step took more
        {"later_max_bytes": 10 * GIB},  # one came near it
        {"limit_bytes": 80 * GIB},  # there is plenty
    ],
)
def test_it_passes_where_the_first_step_does_not_decide(change):
    assert CODE in judged(replace(GPU, **change)).passed


def test_a_short_peak_that_readings_miss_is_not_taken_for_one():
    large = replace(PREDICTED, high=MemoryByCause(11 * GIB))
    assert CODE in judged(GPU, prediction=large).passed
    partly = replace(PREDICTED, unknown_because="memory within loops is not counted")
    for unknown in (None, partly):
        assert "a predicted step" in judged(GPU, prediction=unknown).not_applicable[CODE]


def test_it_abstains_without_enough_readings_and_without_a_gpu():
    assert "30 later readings" in judged(replace(GPU, later_readings=29)).not_applicable[CODE]
    assert "30 later readings" in judged(DeviceMemory("GPU:0", 0, 9, 16)).not_applicable[CODE]
    assert judged(replace(GPU, device="CPU:0")).not_applicable[CODE] == "there is no GPU"
