"""Predicted memory next to the measured peak, and the note on memory that ran out."""

import re
from dataclasses import replace

import pytest
from helpers.recorded_runs import SUMMARY

from keras_gpukit.records import (
    AllocatorState,
    DeviceMemory,
    HeldTensor,
    MemoryByCause,
    MemoryOption,
    MemoryPrediction,
    MemoryRecord,
    OutOfMemory,
)
from keras_gpukit.reports.evidence import evidence_sentences
from keras_gpukit.reports.memory import note
from keras_gpukit.reports.phrases import headline, key_figures
from keras_gpukit.rules import judge

MIB, GIB = 2**20, 2**30
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


def test_the_summary_and_the_page_begin_with_peak_and_prediction():
    summary = replace(SUMMARY, memory=MEMORY)
    assert "GPU:0 peak 9 GiB of 80 GiB (8.5 GiB predicted)" in headline(summary)
    assert ("peak memory, predicted", "8.5 GiB") in key_figures(summary)
    # What only the first step took is not the peak.
    gpu = replace(DEVICE, peak_bytes=20 * GIB, first_step_peak_bytes=20 * GIB)
    memory = replace(MEMORY, devices=(replace(gpu, later_peak_bytes=9 * GIB),))
    assert ("GPU:0 peak memory", "9 GiB") in key_figures(replace(SUMMARY, memory=memory))


def test_a_note_on_a_step_compiled_by_xla_gives_an_upper_bound_unless_xla_asked_for_more():
    prediction = replace(MEMORY.prediction, execution="xla")
    record = OutOfMemory("GPU:0", execution="xla", prediction=prediction)
    assert "A step with a batch of 64 is predicted to need at most 10 GiB." in note(record)
    asked = replace(record, state=AllocatorState(11 * GIB))
    assert "asked for 11 GiB in one block" in note(asked)
    assert "predicted" not in note(asked)
    # The state of the allocator is said in sentences.
    state = AllocatorState(2 * GIB, 16 * GIB, 15 * GIB, free_bytes=GIB)
    judged = judge(replace(SUMMARY, out_of_memory=OutOfMemory("GPU:0", state=state)))
    result = " ".join(evidence_sentences(judged.findings[0]))
    assert "asked for 2 GiB, 15 GiB were in use, 1 GiB were free" in result
    assert "use takes" not in result


TOO_LITTLE = (
    MemoryOption("mixed precision", 328 * MIB, False, 64),
    MemoryOption("rematerialization", 392 * MIB, False, 64),
)
APART = "  Not enough on its own:"


def lines(*options: MemoryOption) -> list[str]:
    state = AllocatorState(128 * MIB, 256 * MIB, 160 * MIB)
    return note(OutOfMemory("GPU:0", None, "conv", state=state, options=options)).splitlines()


def test_what_is_not_enough_on_its_own_is_listed_apart():
    result = lines(*TOO_LITTLE, MemoryOption("batch size", 157 * MIB, True, 32))
    begin = result.index(APART)
    assert result[begin - 1].startswith("  - batch_size=32")
    assert [line for line in result[:begin] if line.startswith("  - ")] == [result[begin - 1]]
    assert "mixed_precision=" in result[begin + 1]
    assert "rematerialize" in result[begin + 2]
    assert APART not in lines(MemoryOption("batch size", 157 * MIB, True, 32))
    assert lines(*TOO_LITTLE)[-3] == APART


@pytest.mark.tensorflow
def test_the_functions_that_it_names_exist():
    import keras

    import keras_gpukit as gpukit

    result = "\n".join(lines(*TOO_LITTLE))
    named = re.findall(r"(keras_gpukit|keras\.config)\.(\w+)\(", result)
    assert len(named) == 3
    for module, name in named:
        assert callable(getattr(gpukit if module == "keras_gpukit" else keras.config, name))
