"""A peak of the first step alone is reported on its own; only GPUs try algorithms in it."""

from dataclasses import replace

from helpers.findings import by_name, codes, found

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


def first_figure(code, *devices):
    return next(iter(by_name(found(code, summary(*devices)))))


def test_it_says_what_the_first_step_took_and_what_later_steps_need():
    of_first = found(CODE, summary(GPU))
    assert of_first.severity == "info"
    assert [*by_name(of_first).items()] == [
        ("first step on GPU:0", 15 * GIB),
        ("later steps at most", 7 * GIB),
    ]
    assert "GPU:0 peak 7 GiB of 16 GiB (15 GiB in the first step)" in headline(summary(GPU))


def test_of_several_gpus_the_one_with_the_largest_difference_is_named():
    little = DeviceMemory("GPU:1", 2 * GIB, 16 * GIB, 16 * GIB, 16 * GIB, 14 * GIB)
    assert first_figure(CODE, little, GPU) == "first step on GPU:0"
    assert "memory-nearly-full" not in codes(summary(little, GPU))  # 14 of 16 GiB
    fuller = replace(little, later_peak_bytes=15 * GIB)
    assert first_figure("memory-nearly-full", GPU, fuller) == "peak use of GPU:1"


def test_it_passes_where_the_first_step_does_not_matter():
    assert CODE in judged(replace(GPU, later_peak_bytes=14 * GIB)).passed  # about as much
    assert CODE in judged(replace(GPU, limit_bytes=80 * GIB)).passed  # there is plenty
    assert "later steps" in judged(replace(GPU, later_peak_bytes=None)).not_applicable[CODE]
    assert judged(replace(GPU, device="CPU:0")).not_applicable[CODE] == "no GPU"
    # It does not fill a GPU that later steps leave half empty.
    assert "memory-nearly-full" in judged(GPU).passed
    assert "memory-nearly-full" in codes(summary(replace(GPU, later_peak_bytes=None)))
