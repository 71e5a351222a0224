"""The note on an out-of-memory error lists what would fit, and apart from it what would not."""

from __future__ import annotations

import re

import keras

import keras_gpukit as gpukit
from keras_gpukit.records.memory import AllocatorState, MemoryOption, OutOfMemory
from keras_gpukit.reports.out_of_memory import note

MIB = 2**20
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


def test_the_functions_that_it_names_exist():
    result = "\n".join(lines(*TOO_LITTLE))
    named = re.findall(r"(keras_gpukit|keras\.config)\.(\w+)\(", result)
    assert len(named) == 3
    for module, name in named:
        assert callable(getattr(gpukit if module == "keras_gpukit" else keras.config, name))
