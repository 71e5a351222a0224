"""When `Monitor` takes a profile of a CPU by itself, and what is said of a run without one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from keras_gpukit.records import (
    CaptureRecord,
    Environment,
    InputRecord,
    LayerProfile,
    PlacementRecord,
    ProfileRecord,
    ProfilerRecord,
    RunSummary,
    StepWindow,
    ThroughputRecord,
    TimeBreakdown,
)
from keras_gpukit.reports.phrases import all_well, see_more
from keras_gpukit.rules import judge
from keras_gpukit.rules.slowdown.cpu_captures import CPUCaptures, events_of_step

COMPUTES = TimeBreakdown(100.0, 1.0, 88.0, 1.0, 2.0, 5.0, 1.0, 1.0)


def asked(step_times_s, *, cost_s=0.02, parts=COMPUTES):
    """The second of the capture and its executions, or why it gets none, in windows of 2 s."""
    when = CPUCaptures(1000.0, lambda: parts, lambda step_s: cost_s)
    for number, step_time_s in enumerate(step_times_s, 1):
        window = StepWindow("fit", 1000.0 + 2 * number, 0, round(2 / step_time_s), 2.0)
        if when.add(window) is not None:
            return 2 * number, when.executions
    return when.none_because


@pytest.mark.parametrize(
    ("cost_s", "expected"),
    [
        (0.001, (10, 10)),
        (0.04, (10, 2)),
        (0.2, (20, 1)),
        (0.29, "a profile may cost 0.29 s, which is over 1 % of the run"),
        (0.5, "a profile of one step may cost 0.5 s"),
    ],
)
def test_a_capture_is_as_large_as_a_hundredth_of_the_run_affords(cost_s, expected):
    assert asked([0.1] * 14, cost_s=cost_s) == expected


@pytest.mark.parametrize(
    ("step_times_s", "parts", "because"),
    [
        ([0.1] * 4, COMPUTES, "the run had no steps after its first 10 s"),
        ([0.1, 0.4] * 10, COMPUTES, "the step time was never steady"),
        ([0.1] * 20, replace(COMPUTES, compute_s=40.0), "compute was less than half of the run"),
        ([0.1] * 20, None, "it is unknown how long steps computed"),
    ],
)
def test_what_is_not_steady_compute_is_not_captured(step_times_s, parts, because):
    assert asked(step_times_s, parts=parts) == because


def test_a_run_that_asks_for_a_profile_gets_one_early_whether_or_not_steps_are_steady():
    when = CPUCaptures(1000.0, lambda: None, lambda step_s: 0.05, suspected=True)
    windows = [StepWindow("fit", 1000.0 + second, 0, 1, 0.3) for second in (1, 2, 3, 4, 5)]
    asked_at = [each.time_s for each in windows if when.add(each) is not None]
    assert (asked_at, when.executions) == ([1004.0], 6)


def test_events_follow_from_operations_unless_they_loop():
    def events(placement, recurs=False):
        return events_of_step(0.1, placement, 10, recurs=recurs)

    assert events(PlacementRecord({"CPU:0": {"MatMul": 100}})) == 5 * 100 + 2000
    assert events(PlacementRecord({"CPU:0": {"TensorListStack": 1}})) == 40e3
    assert events(PlacementRecord()) == events(None) == 5 * 50 * 10 + 2000
    assert events(None, recurs=True) == 40e3


def verdict_of(captures):
    summary = RunSummary(
        Environment({}, precision="float32"),
        throughput=ThroughputRecord("fit", 1000, 990, 0.09, 100.0),
        input=InputRecord("fit", 0.001, 0.01, 990, breakdown=COMPUTES),
        captures=captures,
        ending="completed",
    )
    summary = replace(summary, verdict=judge(summary))
    return all_well(summary), see_more(summary)


CAPTURE = CaptureRecord("one", "steady", "steady", 1, 2, 0.0, 0.1, 0.0, path="one")


@pytest.mark.parametrize(
    ("captures", "because"),
    [
        (ProfilerRecord(none_automatic_because="TensorBoard captures profiles"), "TensorBoard"),
        (ProfilerRecord((replace(CAPTURE, unread_because="it was not read"),)), "it was not read"),
        (None, "without a log directory, no profile is captured"),
    ],
)
def test_compute_that_nothing_looked_into_is_no_all_clear(captures, because):
    said, more = verdict_of(captures)
    assert said.startswith(f"88 % of the time is compute, which was not looked into: {because}")
    assert "keras-gpukit run --profile" in more


def test_steps_of_an_own_loop_that_nothing_looked_into_are_no_all_clear():
    slow = ThroughputRecord("fit", 116, 116, 0.235, None)
    wait = InputRecord("fit", confidence="exact", measured_steps=116, stall_fraction=0.1)
    run = RunSummary(Environment({}), throughput=slow, input=wait, ending="completed")
    run = replace(run, verdict=judge(run))
    assert all_well(run) == (
        "116 steps took 24.5 s without the wait for data; what they compute was not looked into."
    )
    assert see_more(run) is None
    short = replace(run, throughput=replace(slow, step_time_s=0.01))
    assert all_well(short).startswith("Nothing was found")


def test_a_step_that_mostly_passes_between_its_operations_is_no_all_clear():
    layers = (
        LayerProfile("dense", "layer", 0.001, 0.0, {"matmul": 0.001}, 40.0),
        LayerProfile("between operations", "other", 0.009, 0.0, {"other": 0.009}, 0.0),
    )
    summary = RunSummary(
        Environment({}, precision="float32"),
        throughput=ThroughputRecord("fit", 1000, 990, 0.09, 100.0),
        input=InputRecord("fit", 0.001, 0.01, 990, breakdown=COMPUTES),
        profile=ProfileRecord(steps=2, step_time_s=0.01, layers=layers),
        ending="completed",
    )
    summary = replace(summary, verdict=judge(summary))
    assert all_well(summary).startswith(
        "90 % of a captured step passes between its 40 operations, which are small"
    )
