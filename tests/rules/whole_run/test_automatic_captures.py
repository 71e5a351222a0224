"""When `Monitor` takes a profile by itself, and what that profile says of the live input stall."""

from dataclasses import replace

import pytest
from helpers.findings import bounds, found
from helpers.summaries import stall, throughput

from keras_gpukit import records
from keras_gpukit.reports.phrases import correction, headline
from keras_gpukit.reports.run_words import all_well, see_more
from keras_gpukit.rules import judge
from keras_gpukit.rules.input.pipeline_causes import corrected
from keras_gpukit.rules.whole_run.capture_triggers import (
    AutomaticCaptures,
    CPUCaptures,
    events_of_step,
)

# When


def asked(step_times_s, began_s: float = 1000.0):
    """What is asked for, and after how many seconds, in a run of windows of a second each."""
    when = AutomaticCaptures(began_s)
    result = []
    for second, step_time_s in enumerate(step_times_s, 1):
        steps = round(1 / step_time_s)
        window = records.StepWindow("fit", began_s + second, 0, steps, steps * step_time_s)
        if (found := when.add_window(window)) is not None:
            result.append((second, *found))
    return result, when.none_because


def test_steady_steps_are_captured_once_twenty_seconds_into_a_run():
    assert asked([0.01] * 60) == ([(20, "steady", "steady steps of 10 ms")], None)
    # One that warms up longer is captured when it has.
    [(second, trigger, _)], _ = asked([0.2 * 0.9**second for second in range(28)] + [0.01] * 20)
    assert trigger == "steady"
    assert 35 <= second <= 40
    # Of all slowdowns, the first one is captured.
    result, _ = asked([0.01] * 40 + [0.02] * 40 + [0.05] * 40)
    assert [each[:2] for each in result] == [(20, "steady"), (50, "step time")]


@pytest.mark.parametrize(
    ("step_times_s", "because"), [([0.01] * 19, "20 s"), (([0.01] * 5 + [0.02] * 5) * 6, "steady")]
)
def test_a_run_that_is_short_or_never_settles_is_not_captured(step_times_s, because):
    result, none_because = asked(step_times_s)
    assert result == []
    assert because in none_because


def test_windows_of_a_capture_count_for_neither():
    when = AutomaticCaptures(0.0)
    for second in range(1, 60):
        if second % 4 == 0:
            when.skip()
        assert when.add_window(records.StepWindow("fit", float(second), 0, 100, 1.0)) is None


# What the profile says of the live stall

STAGE = records.StageRecord("augment", "map", "mapping", "train.py:12", 0.008, 0.008, share=1.0)
RUN = records.RunSummary(
    records.Environment({}, gpus=(records.GPUInfo(0, "NVIDIA H100"),), cpu_count=16),
    throughput=throughput(wall_s=12.0),
    input=stall(
        *(0.84, "upper bound"),
        wait_s=0.0084,
        later_stall_fraction=0.42,
        buffered_batches=0.0,
        distribution=records.WaitDistribution(0.008, 0.009, 0.01, 1.0),
        breakdown=records.TimeBreakdown(12.0, 8.4, 1.4, 0.2, 0.5, 1.0, 0.0, 0.5),
        pipeline=records.PipelineRecord((STAGE,), STAGE, slowest_s=0.008),
    ),
)
CAPTURE = records.CaptureRecord("a", "steady", "steady", 4012, 64, 0.0, 0.64, 0.01, path="a")


def held_against(true: float | None, live: float | None, most: float | None = None, **record):
    """The run, its input with such figures, after a profile with other ones."""
    fractions = {"stall_fraction": true, "live_stall_fraction": live}
    capture = replace(CAPTURE, **fractions, live_most_stall_fraction=most)
    measured = replace(RUN.input, **record)
    return corrected(replace(RUN, input=measured, captures=records.ProfilerRecord((capture,))))


def test_a_stall_that_the_profile_refutes_is_that_of_the_profile_everywhere():
    run = held_against(0.34, 0.84)
    record = run.input
    assert (record.stall_fraction, record.wait_s) == pytest.approx((0.34, 0.0034))
    assert (record.later_stall_fraction, record.live_stall_fraction) == pytest.approx((0.17, 0.84))
    assert (record.confidence, record.distribution) == ("sampled", None)
    assert record.pipeline.bottleneck == STAGE
    assert run.breakdown.input_s == pytest.approx(3.4)
    assert run.breakdown.input_s + run.breakdown.compute_s == pytest.approx(9.8)
    assert run.breakdown.unknown_s == RUN.breakdown.unknown_s
    low_s, high_s = bounds(found("input-bound", run))
    assert (low_s + high_s) / 2 == pytest.approx(3.4)
    assert "input about 28 % of the run" in headline(run)
    assert correction(run) == (
        "The input stall is corrected by the profile of step 4,012, which shows 34 % where 84 % "
        "was measured during the run."
    )


def test_a_profile_replaces_the_range_of_a_stall_and_corrects_other_steps_in_proportion():
    known = {"stall_fraction": 0.2, "wait_s": 0.002, "most_stall_fraction": 0.6}
    record = held_against(0.5, 0.2, **known, confidence="sampled").input
    assert (record.stall_fraction, record.most_stall_fraction) == (pytest.approx(0.5), None)
    # In a burst: the run stalls half as often as these steps, and by the same factor less.
    burst = held_against(0.4, 0.8, stall_fraction=0.4, wait_s=0.004)
    assert burst.input.stall_fraction == pytest.approx(0.2)
    # Where steps wait more than was measured, the time that they computed shrinks by one factor.
    more = held_against(0.5, 0.2, stall_fraction=0.1, wait_s=0.001)
    assert more.input.stall_fraction == pytest.approx(1 - 0.9 * 0.5 / 0.8)


def test_a_stall_that_the_profile_does_not_show_is_no_finding():
    run = held_against(0.01, 0.84)
    assert found("input-bound", run) is None
    assert run.input.pipeline.bottleneck is None
    assert "1.0 %" in run.input.pipeline.balanced_because
    # One within its range refutes nothing.
    assert held_against(0.34, 0.2, most=0.35).input == RUN.input
    assert held_against(0.34, 0.1, most=0.2).input != RUN.input


@pytest.mark.parametrize("wait_s", [0.0, 0.0001])
def test_a_stall_that_only_the_profile_shows_is_found(wait_s):
    known = {"wait_s": wait_s, "stall_fraction": wait_s / 0.01, "confidence": "exact"}
    parts = replace(RUN.breakdown, input_s=wait_s * 1000, compute_s=9.8 - wait_s * 1000)
    run = held_against(0.5, wait_s / 0.01, **known, breakdown=parts)
    assert run.input.stall_fraction == pytest.approx(0.5)
    assert run.breakdown.input_s == pytest.approx(5.0)
    assert found("input-bound", run).severity == "critical"


@pytest.mark.parametrize(
    ("true", "live", "confidence"),
    [
        (0.82, 0.84, "exact"),
        (0.86, 0.84, "upper bound"),
        (0.86, 0.84, "sampled"),
        (0.34, None, "exact"),
        (None, None, "exact"),
    ],
)
def test_a_profile_that_refutes_nothing_changes_nothing(true, live, confidence):
    run = held_against(true, live, confidence=confidence)
    assert run.input == replace(RUN.input, confidence=confidence)
    assert correction(run) is None
    unknown = {"unknown_because": "why", "stall_fraction": None, "wait_s": None}
    assert held_against(0.34, 0.84, **unknown).input.stall_fraction is None
    assert corrected(RUN) == RUN


COMPUTES = records.TimeBreakdown(100.0, 1.0, 88.0, 1.0, 2.0, 5.0, 1.0, 1.0)


def asked_on_cpu(step_times_s, *, cost_s=0.02, parts=COMPUTES):
    """The second of the capture and its executions, or why it gets none, in windows of 2 s."""
    when = CPUCaptures(1000.0, lambda: parts, lambda step_s: cost_s)
    for number, step_time_s in enumerate(step_times_s, 1):
        window = records.StepWindow("fit", 1000.0 + 2 * number, 0, round(2 / step_time_s), 2.0)
        if when.add_window(window) is not None:
            return 2 * number, when.executions
    return when.none_because


@pytest.mark.parametrize(
    ("cost_s", "expected"),
    [
        (0.001, (6, 10)),
        (0.025, (6, 2)),
        (0.04, (8, 2)),
        (0.06, (10, 1)),
        (0.2, (20, 1)),
        (0.29, "a profile may cost 0.29 s, which is over 1 % of the run"),
        (0.5, "a profile of one step may cost 0.5 s"),
    ],
)
def test_a_capture_is_as_large_as_a_hundredth_of_the_run_affords(cost_s, expected):
    assert asked_on_cpu([0.1] * 14, cost_s=cost_s) == expected
    short = asked_on_cpu([0.1] * 4, cost_s=0.06)  # no two executions, and over before 10 s
    assert short == "the run had no steps after its first 10 s"


@pytest.mark.parametrize(
    ("step_times_s", "parts", "because"),
    [
        ([0.1] * 2, COMPUTES, "the run had no steps after its first 5 s"),
        ([0.1, 0.4] * 10, COMPUTES, "the step time was never steady"),
        ([0.1] * 20, replace(COMPUTES, compute_s=40.0), "compute was less than half of the run"),
        ([0.1] * 20, None, "it is unknown how long steps computed"),
    ],
)
def test_what_is_not_steady_compute_is_not_captured(step_times_s, parts, because):
    assert asked_on_cpu(step_times_s, parts=parts) == because


def test_a_run_that_asks_for_a_profile_gets_one_early_whether_or_not_steps_are_steady():
    when = CPUCaptures(1000.0, lambda: None, lambda step_s: 0.05, suspected=True)
    windows = [records.StepWindow("fit", 1000.0 + second, 0, 1, 0.3) for second in (1, 2, 3, 4, 5)]
    asked_at = [each.time_s for each in windows if when.add_window(each) is not None]
    assert (asked_at, when.executions) == ([1004.0], 6)


def test_events_follow_from_operations_unless_they_loop():
    def events(placement, recurs=False):
        return events_of_step(0.1, placement, 10, recurs=recurs)

    assert events(records.PlacementRecord({"CPU:0": {"MatMul": 100}})) == 5 * 100 + 2000
    assert events(records.PlacementRecord({"CPU:0": {"TensorListStack": 1}})) == 40e3
    assert events(records.PlacementRecord()) == events(None) == 5 * 50 * 10 + 2000
    assert events(None, recurs=True) == 40e3


def judged(**parts):
    """A run that mostly computes, with such parts."""
    known = {
        "throughput": throughput(0.09),
        "input": records.InputRecord("fit", measured_steps=990, breakdown=COMPUTES),
    }
    run = records.RunSummary(
        records.Environment({}, precision="float32"), **{**known, "ending": "completed"}
    )
    run = replace(run, **parts)
    return replace(run, verdict=judge(run))


STEADY = records.CaptureRecord("one", "steady", "steady", 1, 2, 0.0, 0.1, 0.0, path="one")


@pytest.mark.parametrize(
    ("captures", "because"),
    [
        (
            records.ProfilerRecord(none_automatic_because="TensorBoard captures profiles"),
            "TensorBoard",
        ),
        (
            records.ProfilerRecord((replace(STEADY, unread_because="it was not read"),)),
            "it was not read",
        ),
        (None, "without a log directory, no profile is captured"),
    ],
)
def test_compute_that_nothing_looked_into_is_no_all_clear(captures, because):
    run = judged(captures=captures)
    said = f"88 % of the time is compute, which was not looked into: {because}"
    assert all_well(run).startswith(said)
    shows = "callback keras_gpukit.Profiler(){} shows what the steps compute, by layer."
    again = "keras-gpukit run --profile train.py --epochs 3"
    assert see_more(run, again) == f"{again}, or the {shows.format(',')}"
    assert see_more(run) == f"The {shows.format('')}"  # in a notebook, there is no script to run


def test_steps_of_an_own_loop_that_nothing_looked_into_are_no_all_clear():
    own_loop = {"environment": records.Environment({}), "input": stall(0.1, steps=116, wait_s=None)}
    run = judged(**own_loop, throughput=throughput(0.235, 116))
    assert all_well(run) == (
        "116 steps took 24.5 s without the wait for data; what they compute was not looked into."
    )
    assert see_more(run) is None
    short = judged(**own_loop, throughput=throughput(0.01, 116))
    assert all_well(short).startswith("Nothing was found")


def test_a_step_that_mostly_passes_between_its_operations_is_no_all_clear():
    layers = (
        records.LayerProfile("dense", "layer", 0.001, 0.0, {"matmul": 0.001}, 40.0),
        records.LayerProfile("between operations", "other", 0.009, 0.0, {"other": 0.009}, 0.0),
    )
    run = judged(profile=records.ProfileRecord(steps=2, step_time_s=0.01, layers=layers))
    said = "90 % of a captured step passes between its 40 operations, which are small"
    assert all_well(run).startswith(said)
