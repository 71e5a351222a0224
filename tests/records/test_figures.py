"""Figures that records derive from their own."""

from keras_gpukit.records import DeviceMemory, MemoryByCause, MemoryRecord, Saving


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
