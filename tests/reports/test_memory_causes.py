"""The report's table of memory by cause: what was predicted next to what was measured."""

from __future__ import annotations

from dataclasses import replace

from helpers.recorded_runs import SUMMARY

from keras_gpukit.records.machine import DeviceMemory, MemoryRecord
from keras_gpukit.records.memory import (
    AllocatorState,
    HeldTensor,
    MemoryByCause,
    MemoryPrediction,
    OutOfMemory,
)
from keras_gpukit.records.report import RunReport
from keras_gpukit.reports.evidence import evidence_sentences
from keras_gpukit.reports.html.chart import Omitted
from keras_gpukit.reports.html.memory_causes import memory_causes
from keras_gpukit.reports.html.words import key_figures
from keras_gpukit.reports.phrases import headline
from keras_gpukit.rules import judge

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


def result(memory):
    return memory_causes(RunReport("run", "completed", summary=replace(SUMMARY, memory=memory)))


def test_each_cause_has_its_prediction_and_what_is_measured_of_it():
    chart = result(MEMORY)
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


def test_what_only_the_first_step_took_is_not_held_against_the_prediction():
    gpu = replace(DEVICE, peak_bytes=20 * GIB, first_step_peak_bytes=20 * GIB)
    memory = replace(MEMORY, devices=(replace(gpu, later_peak_bytes=9 * GIB),))
    chart = result(memory)
    assert {row[0]: row[2] for row in chart.shown.rows}["all"] == "9 GiB"
    assert chart.caption.endswith("held at most 9 GiB, 6 % more; the first step took 20 GiB.")
    assert ("GPU:0 peak memory", "9 GiB") in key_figures(replace(SUMMARY, memory=memory))


def test_steps_compiled_by_xla_are_predicted_as_an_upper_bound():
    chart = result(replace(MEMORY, prediction=replace(MEMORY.prediction, execution="xla")))
    assert {row[0]: row[1] for row in chart.shown.rows}["all"] == "at most 10 GiB"
    assert chart.shown.note.startswith("An upper bound: XLA fuses")
    assert "were predicted to need at most 10 GiB" in chart.caption
    assert "%" not in chart.caption


def test_a_run_that_ran_out_of_memory_is_not_held_against_the_prediction():
    died = replace(SUMMARY, memory=MEMORY, out_of_memory=OutOfMemory("GPU:0"))
    caption = memory_causes(RunReport("run", "interrupted", summary=died)).caption
    assert caption.endswith("GPU:0 held at most 9 GiB when the run ended by running out of memory.")
    assert "%" not in caption


def test_the_state_of_the_allocator_is_told_in_sentences():
    state = AllocatorState(2 * GIB, 16 * GIB, 15 * GIB, free_bytes=GIB)
    judged = judge(replace(SUMMARY, out_of_memory=OutOfMemory("GPU:0", state=state)))
    result = " ".join(evidence_sentences(judged.findings[0]))
    assert "asked for 2 GiB, 15 GiB were in use, 1 GiB were free" in result
    assert "use takes" not in result


def test_without_a_prediction_it_says_why():
    chart = result(replace(MEMORY, prediction=None, not_predicted_because="it was not asked for"))
    assert chart.shown.note == "Not predicted: it was not asked for."
    assert chart.caption == "GPU:0 held at most 9 GiB."
    assert isinstance(result(None), Omitted)


def test_the_summary_and_the_page_begin_with_both_figures():
    summary = replace(SUMMARY, memory=MEMORY)
    assert "GPU:0 peak 9 GiB of 80 GiB (8.5 GiB predicted)" in headline(summary)
    assert ("peak memory, predicted", "8.5 GiB") in key_figures(summary)
