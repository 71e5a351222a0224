"""Memory that grows until the end is found; what levels off is not."""

import pytest
from helpers.findings import by_name, found
from helpers.summaries import changing_run, ones_series

from keras_gpukit.records import (
    DeviceMemory,
    HostUtilization,
    MemoryRecord,
    Series,
    UtilizationRecord,
)
from keras_gpukit.rules import judge

GIB = 2**30
HOST, GPU = "host/memory_bytes", "memory/GPU:0/current_bytes"
GROWS = [2 * GIB + 0.05 * GIB * point for point in range(60)]


def run(figures, left_gib=50):
    host = HostUtilization(memory_available_min_bytes=left_gib * GIB)
    device = DeviceMemory("GPU:0", 5 * GIB, 5 * GIB, 8 * GIB)
    return changing_run(
        figures, utilization=UtilizationRecord(60, host=host), memory=MemoryRecord((device,))
    )


def finding(summary):
    return found("memory-grows", summary)


def test_a_leak_of_the_process_is_named_with_its_rate():
    found = finding(run({HOST: GROWS}))
    assert found.severity == "info"
    assert found.title == "Memory of this process grows as the run goes on"
    figures = {name: value / GIB for name, value in by_name(found).items()}
    assert figures["per thousand steps"] == pytest.approx(5.0, rel=0.05)  # ten steps a point
    assert figures["in the end"] == pytest.approx(GROWS[-1] / GIB, rel=0.05)
    assert figures["left"] == 50
    # A run as long again would run out.
    assert finding(run({HOST: GROWS}, left_gib=2)).severity == "warning"
    # Of several, the one with the least left is named.
    both = finding(run({HOST: GROWS, GPU: GROWS}))
    assert (both.severity, both.title) == ("info", "Memory of GPU:0 grows as the run goes on")


LEVELS_OFF = {
    "steady": [2.0 * GIB] * 60,
    "a cache that was filled": [*GROWS[:30], *[GROWS[30]] * 30],
    "a jump": [2.0 * GIB] * 20 + [4.0 * GIB] * 40,
    "a little": [2 * GIB + 0.002 * GIB * point for point in range(60)],
    "falls": GROWS[::-1],
    "small": [value / 100 for value in GROWS],
}


@pytest.mark.parametrize("levels", LEVELS_OFF.values(), ids=LEVELS_OFF)
def test_what_does_not_go_on_growing_is_none(levels):
    assert "memory-grows" in judge(run({HOST: levels})).passed


def test_what_the_first_step_takes_while_it_traces_is_none():
    tracing = Series(HOST, (0,) * 50, tuple(range(50)), tuple(GROWS[:50]), (1.0,) * 50)
    assert "memory-grows" in judge(ones_series(tracing)).not_applicable
    steps, levels = (0,) * 40 + tuple(range(1, 21)), (*GROWS[:40], *[GROWS[39]] * 20)
    then_steady = Series(HOST, steps, tuple(range(60)), levels, (1.0,) * 60)
    assert "memory-grows" in judge(ones_series(then_steady)).passed
    # Without readings it abstains.
    assert "10 readings" in judge(run({HOST: GROWS[:9]})).not_applicable["memory-grows"]
    assert "memory-grows" in judge(changing_run({})).not_applicable
