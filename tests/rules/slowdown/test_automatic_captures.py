"""When `Monitor` takes a profile by itself, and what that profile says of the live input stall."""

from __future__ import annotations

from dataclasses import replace

import pytest

from keras_gpukit.records import (
    CaptureRecord,
    Environment,
    GPUInfo,
    InputRecord,
    PipelineRecord,
    ProfilerRecord,
    RunSummary,
    StageRecord,
    StepWindow,
    ThroughputRecord,
    TimeBreakdown,
    WaitDistribution,
)
from keras_gpukit.reports.phrases import correction, headline
from keras_gpukit.rules import judge
from keras_gpukit.rules.input.bottleneck import corrected
from keras_gpukit.rules.slowdown.gpu_captures import AutomaticCaptures

# When


def asked(step_times_s, began_s: float = 1000.0):
    """What is asked for, and after how many seconds, in a run of windows of a second each."""
    when = AutomaticCaptures(began_s)
    result = []
    for second, step_time_s in enumerate(step_times_s, 1):
        steps = round(1 / step_time_s)
        window = StepWindow("fit", began_s + second, 0, steps, steps * step_time_s)
        if (found := when.add(window)) is not None:
            result.append((second, *found))
    return result, when.none_because


def test_steady_steps_are_captured_once_twenty_seconds_into_a_run():
    result, none_because = asked([0.01] * 60)
    assert result == [(20, "steady", "steady steps of 10 ms")]
    assert none_because is None


def test_a_shorter_run_is_not_captured():
    result, none_because = asked([0.01] * 19)
    assert result == []
    assert "20 s" in none_because


def test_a_run_that_warms_up_longer_is_captured_when_it_has():
    result, _ = asked([0.2 * 0.9**second for second in range(28)] + [0.01] * 20)
    [(second, trigger, _)] = result
    assert trigger == "steady"
    assert 35 <= second <= 40


def test_a_run_that_never_settles_is_not_captured():
    result, none_because = asked(([0.01] * 5 + [0.02] * 5) * 6)
    assert [trigger for _, trigger, _ in result] == []
    assert "steady" in none_because


def test_of_all_slowdowns_the_first_one_is_captured():
    result, _ = asked([0.01] * 40 + [0.02] * 40 + [0.05] * 40)
    assert [(second, trigger) for second, trigger, _ in result] == [
        (20, "steady"),
        (50, "step time"),
    ]


def test_windows_of_a_capture_count_for_neither():
    when = AutomaticCaptures(0.0)
    for second in range(1, 60):
        if second % 4 == 0:
            when.skip()
        assert when.add(StepWindow("fit", float(second), 0, 100, 1.0)) is None


# What the profile says of the live stall

STAGE = StageRecord("augment", "map", "mapping", "train.py:12", 0.008, 0.008, share=1.0)
RUN = RunSummary(
    Environment({}, gpus=(GPUInfo(0, "NVIDIA H100"),), cpu_count=16),
    throughput=ThroughputRecord("fit", 1000, 1000, 0.01, None, wall_s=12.0),
    input=InputRecord(
        "fit",
        "pipeline model",
        "upper bound",
        1000,
        wait_s=0.0084,
        stall_fraction=0.84,
        later_stall_fraction=0.42,
        buffered_batches=0.0,
        distribution=WaitDistribution(0.008, 0.009, 0.01, 1.0),
        breakdown=TimeBreakdown(12.0, 8.4, 1.4, 0.2, 0.5, 1.0, 0.0, 0.5),
        pipeline=PipelineRecord((STAGE,), STAGE, slowest_s=0.008),
    ),
)
CAPTURE = CaptureRecord("a", "steady", "steady steps of 10 ms", 4012, 64, 0.0, 0.64, 0.01, path="a")


def held_against(
    true: float | None, live: float | None, run: RunSummary = RUN, most: float | None = None
) -> RunSummary:
    capture = replace(
        CAPTURE,
        stall_fraction=true,
        live_stall_fraction=live,
        live_most_stall_fraction=most,
    )
    return corrected(replace(run, captures=ProfilerRecord((capture,))))


def findings(run: RunSummary) -> dict:
    return {each.code: each for each in judge(run).findings}


def test_a_profile_within_the_range_of_a_stall_refutes_nothing():
    assert held_against(0.34, 0.2, most=0.35).input == RUN.input
    assert held_against(0.34, 0.1, most=0.2).input != RUN.input


def test_a_stall_that_the_profile_refutes_is_that_of_the_profile_everywhere():
    run = held_against(0.34, 0.84)
    record = run.input
    assert (record.stall_fraction, record.wait_s) == pytest.approx((0.34, 0.0034))
    assert (record.later_stall_fraction, record.live_stall_fraction) == pytest.approx((0.17, 0.84))
    assert record.confidence == "sampled"
    assert record.distribution is None
    assert record.pipeline.bottleneck == STAGE
    assert run.breakdown.input_s == pytest.approx(3.4)
    assert run.breakdown.input_s + run.breakdown.compute_s == pytest.approx(9.8)
    assert run.breakdown.unknown_s == RUN.breakdown.unknown_s
    saving = findings(run)["input-bound"].saving
    assert (saving.low_s + saving.high_s) / 2 == pytest.approx(3.4)
    assert "input about 28 % of the run" in headline(run)
    assert correction(run) == (
        "The input stall is corrected by the profile of step 4,012, which shows 34 % where 84 % "
        "was measured during the run."
    )


def test_a_profile_replaces_the_range_of_a_stall():
    record = replace(RUN.input, stall_fraction=0.2, wait_s=0.002, most_stall_fraction=0.6)
    record = replace(record, confidence="sampled")
    run = held_against(0.5, 0.2, replace(RUN, input=record))
    assert run.input.stall_fraction == pytest.approx(0.5)
    assert run.input.most_stall_fraction is None


def test_a_stall_that_the_profile_does_not_show_is_no_finding():
    run = held_against(0.01, 0.84)
    assert "input-bound" not in findings(run)
    assert run.input.pipeline.bottleneck is None
    assert "1.0 %" in run.input.pipeline.balanced_because


@pytest.mark.parametrize("wait_s", [0.0, 0.0001])
def test_a_stall_that_only_the_profile_shows_is_found(wait_s):
    parts = replace(RUN.breakdown, input_s=wait_s * 1000, compute_s=9.8 - wait_s * 1000)
    record = replace(
        RUN.input, wait_s=wait_s, stall_fraction=wait_s / 0.01, confidence="exact", breakdown=parts
    )
    run = held_against(0.5, wait_s / 0.01, replace(RUN, input=record))
    assert run.input.stall_fraction == pytest.approx(0.5)
    assert run.breakdown.input_s == pytest.approx(5.0)
    assert findings(run)["input-bound"].severity == "critical"


def test_a_profile_of_unusual_steps_corrects_the_rest_of_the_run_in_proportion():
    # In a burst: the run stalls half as often as these steps, and by the same factor less.
    record = replace(RUN.input, stall_fraction=0.4, wait_s=0.004)
    run = held_against(0.4, 0.8, replace(RUN, input=record))
    assert run.input.stall_fraction == pytest.approx(0.2)


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
    run = replace(RUN, input=replace(RUN.input, confidence=confidence))
    found = held_against(true, live, run)
    assert found.input == run.input
    assert correction(found) is None


def test_a_run_whose_wait_is_unknown_stays_unknown():
    run = held_against(0.34, 0.84, replace(RUN, input=InputRecord("fit", unknown_because="why")))
    assert run.input.stall_fraction is None
    assert corrected(RUN) == RUN
