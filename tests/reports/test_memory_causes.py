"""The report's table of memory by cause: what was predicted next to what was measured."""

from __future__ import annotations

from dataclasses import replace

from helpers.recorded_runs import SUMMARY

from keras_gpukit.records.machine import DeviceMemory, MemoryRecord
from keras_gpukit.records.memory import HeldTensor, MemoryByCause, MemoryPrediction
from keras_gpukit.records.report import RunReport
from keras_gpukit.reports.html.chart import Unknown
from keras_gpukit.reports.html.memory_causes import memory_causes
from keras_gpukit.reports.html.words import key_figures
from keras_gpukit.reports.phrases import headline

GIB = 2**30
LOW = MemoryByCause(GIB, 2 * GIB, GIB // 4, 4 * GIB, GIB // 2, GIB // 4)
HIGH = replace(LOW, activations_bytes=6 * GIB)
DEVICE = DeviceMemory("GPU:0", 3 * GIB, 9 * GIB, 80 * GIB)
MEMORY = MemoryRecord(
    (DEVICE,),
    weights_bytes=GIB,
    slots_bytes=2 * GIB,
    prediction=MemoryPrediction(
        64, low=LOW, high=HIGH, largest=(HeldTensor("model/conv/Relu", (64, 128), GIB, "conv"),)
    ),
)


def told(memory):
    return memory_causes(RunReport("run", "completed", summary=replace(SUMMARY, memory=memory)))


def test_each_cause_has_its_prediction_and_what_is_measured_of_it():
    chart = told(MEMORY)
    rows = {row[0]: row[1:] for row in chart.shown.rows}
    assert rows["weights"] == ("1 GiB", "1 GiB")
    assert rows["optimizer slots"] == ("2 GiB", "2 GiB")
    assert rows["activations"] == ("4 GiB to 6 GiB", "")
    assert rows["batch, activations, gradients, workspace, together"] == ("", "6 GiB")
    assert rows["all"] == ("8 GiB to 10 GiB", "9 GiB")
    assert chart.table.rows == (("model/conv/Relu", "conv", "64 × 128", "1 GiB"),)
    assert chart.caption == (
        "Steps with a batch of 64 were predicted to need 8.5 GiB at the peak; GPU:0 held at most "
        "9 GiB, 6 % more."
    )


def test_without_a_prediction_it_says_why():
    chart = told(replace(MEMORY, prediction=None, not_predicted_because="it was not asked for"))
    assert chart.shown.note == "Not predicted: it was not asked for."
    assert chart.caption == "GPU:0 held at most 9 GiB."
    assert isinstance(told(None), Unknown)


def test_the_summary_and_the_page_begin_with_both_figures():
    summary = replace(SUMMARY, memory=MEMORY)
    assert "GPU:0 peak 9 GiB of 80 GiB (8.5 GiB predicted)" in headline(summary)
    assert ("peak memory, predicted", "8.5 GiB") in key_figures(summary)
