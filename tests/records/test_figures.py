"""Figures that records derive from their own, tags against their page, and their names."""

import re

from helpers.processes import ROOT

from keras_gpukit.records import DeviceMemory, MemoryByCause, MemoryRecord, Saving, names


def test_steps_need_what_weights_and_slots_leave_of_the_later_steps_peak():
    device = DeviceMemory("GPU:0", 0, 100, later_peak_bytes=80)
    assert MemoryRecord((device,), weights_bytes=10, slots_bytes=20).steps_bytes(device) == 50
    assert MemoryRecord((device,), weights_bytes=10).steps_bytes(device) is None


def test_weights_and_slots_are_held_between_steps():
    causes = MemoryByCause(weights_bytes=3, slots_bytes=4, batch_bytes=5)
    assert (causes.held_bytes, causes.total_bytes) == (7, 12)


def test_a_saving_is_expected_in_the_middle_of_its_range():
    assert Saving(2.0, 6.0, 10.0, "wait").expected_s == 4.0
    assert Saving(2.0, None, 10.0, "wait").expected_s == 2.0


def test_the_documented_tags_are_the_written_ones():
    table = (ROOT / "docs" / "reference" / "records.md").read_text().split("### run.jsonl")[0]
    documented = re.findall(r"^\| `([^`]+)` \|", table, flags=re.MULTILINE)
    gpu = [names.gpu_tag("<index>", figure) for figure in (*names.GPU_FIGURES, "throttled")]
    memory = [names.memory_tag("<device>", figure) for figure in names.MEMORY_FIGURES]
    others = [
        value
        for name, value in vars(names).items()
        if isinstance(value, str) and ("/" in value or name in ("SETUP", "PLACEMENT", "FINDINGS"))
    ]
    others = [tag for tag in others if not tag.startswith("/")]  # the module's own file
    assert sorted(documented) == sorted([*gpu, *memory, *others])
