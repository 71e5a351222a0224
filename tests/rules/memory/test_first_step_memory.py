"""A peak of the first step alone is reported on its own; only GPUs try algorithms in it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from helpers.findings import by_name

from keras_gpukit.records import DeviceMemory, Environment, MemoryRecord, RunSummary
from keras_gpukit.reports.phrases import headline
from keras_gpukit.rules import judge

GIB = 2**30
CODE = "first-step-memory"
GPU = DeviceMemory("GPU:0", 2 * GIB, 15 * GIB, 16 * GIB, 15 * GIB, 7 * GIB)


def summary(*devices):
    return RunSummary(Environment({}), memory=MemoryRecord(devices))


def judged(*devices):
    return judge(summary(*devices))


def test_it_says_what_the_first_step_took_and_what_later_steps_need():
    (found,) = (each for each in judged(GPU).findings if each.code == CODE)
    assert found.severity == "info"
    assert [*by_name(found).items()] == [
        ("first step on GPU:0", 15 * GIB),
        ("later steps at most", 7 * GIB),
    ]


def test_of_several_gpus_the_one_with_the_largest_difference_is_named():
    little = DeviceMemory("GPU:1", 2 * GIB, 16 * GIB, 16 * GIB, 16 * GIB, 14 * GIB)
    (found,) = (each for each in judged(little, GPU).findings if each.code == CODE)
    assert next(iter(by_name(found))) == "first step on GPU:0"
    full = [each for each in judged(little, GPU).findings if each.code == "memory-nearly-full"]
    assert not full  # 14 of 16 GiB
    fuller = replace(little, later_peak_bytes=15 * GIB)
    (found,) = (each for each in judged(GPU, fuller).findings if each.code == "memory-nearly-full")
    assert next(iter(by_name(found))) == "peak use of GPU:1"


@pytest.mark.parametrize(
    "change",
    [
        {"later_peak_bytes": 14 * GIB},  # later steps need about as much
        {"limit_bytes": 80 * GIB},  # there is plenty
    ],
)
def test_it_passes_where_the_first_step_does_not_matter(change):
    assert CODE in judged(replace(GPU, **change)).passed


def test_it_abstains_without_later_steps_and_without_a_gpu():
    assert "later steps" in judged(replace(GPU, later_peak_bytes=None)).not_applicable[CODE]
    assert judged(replace(GPU, device="CPU:0")).not_applicable[CODE] == "no GPU"


def test_the_first_step_does_not_fill_a_gpu_that_later_steps_leave_half_empty():
    assert "memory-nearly-full" in judged(GPU).passed
    only_first = replace(GPU, later_peak_bytes=None)
    assert "memory-nearly-full" in {each.code for each in judged(only_first).findings}


def test_the_panel_shows_what_later_steps_need():
    assert "GPU:0 peak 7 GiB of 16 GiB (15 GiB in the first step)" in headline(summary(GPU))
