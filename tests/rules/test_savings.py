"""What a finding promises: seconds of the run's wall time, never more than there are."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from helpers.processes import ROOT

from keras_gpukit.records import (
    ContentionRecord,
    Environment,
    GPUInfo,
    GPUUtilization,
    InputRecord,
    PipelineStartRecord,
    Rate,
    RunSummary,
    Saving,
    ThroughputRecord,
    TimeBreakdown,
    UtilizationRecord,
)
from keras_gpukit.rules import judge
from keras_gpukit.rules.compute.host_cpu import page_faults_saving
from keras_gpukit.rules.savings import (
    of_callbacks,
    of_rates,
    of_run,
    severity,
)

GPU = GPUInfo(0, compute_capability=(8, 0))
WALL_S = 25.0
PAUSED_S = 0.15 * 18.5
"""What steps of a CPU gain if they no longer start after that wait: 15 % of it."""


def run(
    input_s=18.5,
    compute_s=4.5,
    first_step_s=2.0,
    contention=None,
    confidence="exact",
    gpus=(),
    **more,
):
    """A run of 1,000 steps whose input took 74 % of its 25 s, unless said otherwise."""
    steps_s = input_s + compute_s
    breakdown = TimeBreakdown(
        WALL_S,
        input_s,
        compute_s,
        callbacks_s=0.0,
        epoch_start_s=0.0,
        first_step_s=first_step_s,
        validation_s=0.0,
        other_s=WALL_S - steps_s - first_step_s,
    )
    record = InputRecord(
        "fit",
        confidence=confidence,
        measured_steps=1000,
        wait_s=input_s / 1000,
        stall_fraction=input_s / steps_s,
        breakdown=replace(breakdown, **more.pop("parts", {})),
        contention=contention,
        **more.pop("record", {}),
    )
    throughput = ThroughputRecord("fit", 1000, 1000, steps_s / 1000, None, WALL_S)
    return RunSummary(Environment({}, gpus=gpus), throughput, record, **more)


def saving(code, summary):
    return next(each.saving for each in judge(summary).findings if each.code == code)


def test_a_wait_of_74_percent_of_the_run_makes_it_about_3_8_times_as_fast():
    on_gpu = saving("input-bound", run(gpus=(GPU,)))
    # Less by 4 %, or more by 6 %, of the steps' 23 s.
    assert (on_gpu.low_s, on_gpu.high_s) == pytest.approx((17.58, 19.88))
    assert on_gpu.of_s == WALL_S
    assert on_gpu.speed_up == pytest.approx(3.37, abs=0.01)
    assert on_gpu.highest_speed_up == pytest.approx(4.88, abs=0.01)


H100_FITS = {
    name: row
    for way in ("1-step", "synchronous", "jit", "8-steps", "mirrored", "to-device")
    for name, row in json.loads((ROOT / f"benchmarks/results/gpu/stall.{way}.json").read_text())[
        "measured"
    ].items()
}
"""Fits on an H100. Of a fit in the way "8 steps, …" older code reported more than the stall."""
STALLED_FITS = [
    name
    for name, row in H100_FITS.items()
    if "8 steps, " not in name
    and not name.endswith(("ready", "transferred"))
    and row["reported"] > 0.15
]


@pytest.mark.parametrize("name", STALLED_FITS)
def test_ready_batches_saved_an_h100_what_is_promised_of_the_wait(name):
    row, ready = H100_FITS[name], H100_FITS[f"{name.partition('/')[0]}/ready"]
    steps_s = 20.0
    summary = run(
        input_s=steps_s * row["reported"],
        compute_s=steps_s * (1 - row["reported"]),
        confidence=row["confidence"],
        gpus=(GPU,),
        record={"most_stall_fraction": row.get("most")},
    )
    found = saving("input-bound", summary)
    assert found.low_s <= steps_s * (1 - ready["step_ms"] / row["step_ms"]) <= found.high_s


@pytest.mark.parametrize(
    ("contention", "high_s"),
    [
        (None, None),  # not measured
        (ContentionRecord(0.0, None), None),
        (ContentionRecord(0.0, 0.9), 18.5 + 0.8 * 4.5),  # a fifth of the steps' work remains
        (ContentionRecord(0.0, 0.05), 18.5 + PAUSED_S + 1.15 / 2),  # mostly idle: little to free
    ],
)
def test_on_a_cpu_cores_that_input_frees_speed_the_steps_up(contention, high_s):
    found = saving("input-bound", run(contention=contention))
    assert found.low_s == 18.5
    assert found.high_s == (None if high_s is None else pytest.approx(high_s))
    assert not found.upper_bound


def test_sharing_busy_cores_costs_the_steps_at_most_half_of_their_work():
    summary = run(input_s=5.0, compute_s=15.0, contention=ContentionRecord(0.0, 0.9))
    assert saving("input-bound", summary).high_s == pytest.approx(5.0 + 15.0 / 2 + 0.15 * 5.0)


@pytest.mark.parametrize(
    ("input_cores_fraction", "high_s"),
    [
        (0.0, 18.5 + PAUSED_S),  # stages that sleep take nothing from the steps
        (0.005, 18.5 + PAUSED_S + 0.005 * 4 * 23),
        (0.5, 18.5 + 0.8 * 4.5),  # a fifth of the steps' work remains
    ],
)
def test_cores_that_input_was_seen_to_use_bound_what_it_frees(input_cores_fraction, high_s):
    record = ContentionRecord(0.0, 0.9, input_cores_fraction)
    summary = run(contention=record)
    found = saving("input-bound", replace(summary, environment=Environment({}, cpu_count=4)))
    assert (found.low_s, found.high_s) == (18.5, pytest.approx(high_s))


@pytest.mark.parametrize(
    ("parts", "gpus", "high_s"),
    [
        # 10 s in callbacks between steps of 8 ms, and 2 s of them between epochs.
        ({"callbacks_s": 12.0}, (), 12.0 + 0.15 * 10.0),
        ({"callbacks_s": 12.0}, (GPU,), 12.0),
        # No time between steps: every callback ran between epochs.
        ({"callbacks_s": 12.0, "compute_s": 18.0}, (), 12.0),
    ],
)
def test_steps_of_a_cpu_also_gain_where_callbacks_between_them_go(parts, gpus, high_s):
    summary = run(input_s=0.0, compute_s=8.0, gpus=gpus, parts=parts)
    throughput = replace(summary.throughput, step_time_s=0.018)
    found = saving("slow-callbacks", replace(summary, throughput=throughput))
    assert (found.low_s, found.high_s) == (pytest.approx(11.75), pytest.approx(high_s))


def test_pauses_for_callbacks_slow_steps_by_no_more_than_these_callbacks_took():
    throughput = ThroughputRecord("fit", 1000, 1000, 0.033, None, WALL_S)
    found = of_callbacks(replace(run(), throughput=throughput), 5.0, 6.0)
    assert (found.low_s, found.high_s) == (5.0, pytest.approx(6.0 * 1.15))


@pytest.mark.parametrize(
    ("gpus", "low_s", "high_s"),
    [((), 0.5 * 0.3 * 23, 2 * 0.3 * 23), ((GPU,), 0.0, 2 * 0.3 * 18.5)],
)
def test_without_page_faults_half_to_twice_the_kernel_s_share_is_saved(gpus, low_s, high_s):
    found = page_faults_saving(run(gpus=gpus), 0.3)
    assert (found.low_s, found.high_s) == (pytest.approx(low_s), pytest.approx(high_s))


def test_steps_that_are_twice_as_fast_save_half_of_their_time():
    found = of_rates(run(), Rate(1.5, 1.25, 2.0, "times"))
    assert (found.low_s, found.high_s) == (pytest.approx(23 / 5), pytest.approx(23 / 2))


def test_the_wait_is_a_share_of_the_whole_run():
    first, *_ = judge(run()).findings
    assert first.title == "74 % of the time is spent waiting for data"  # 18.5 of 25 s


def test_cores_taken_from_steps_that_do_not_wait_save_at_most_their_time():
    record = ContentionRecord(0.0, 0.9, 0.25)
    summary = run(input_s=0.5, compute_s=20.0, contention=record)
    found = saving("cpu-contention", replace(summary, environment=Environment({}, cpu_count=2)))
    assert (found.low_s, found.high_s, found.upper_bound) == (0.0, 0.5 * 20.5, True)


def test_where_threads_wait_for_the_gil_the_steps_still_keep_a_fifth_of_their_time():
    found = saving("input-bound", run(contention=ContentionRecord(0.0006, 0.5)))
    assert (found.low_s, found.high_s, found.upper_bound) == (18.5, 18.5 + 0.8 * 4.5, True)


def test_a_wait_that_is_not_exact_is_a_range():
    sampled = saving("input-bound", run(confidence="sampled", gpus=(GPU,)))
    assert (sampled.low_s, sampled.high_s) == (18.5 - 0.05 * 23, 18.5 + 0.05 * 23)
    most = saving("input-bound", run(confidence="upper bound", record={"buffered_batches": 0.0}))
    assert (most.low_s, most.high_s, most.upper_bound) == (0.0, 18.5, True)


def test_a_cause_is_as_severe_as_its_part_of_the_run_without_the_first_step():
    short = Saving(2.0, None, WALL_S, "wait")
    assert severity(short, run()) == "info"
    assert severity(short, run(first_step_s=15.0)) == "critical"
    assert severity(replace(short, low_s=2.5), run(first_step_s=0.0)) == "warning"


def test_epoch_starts_save_what_was_measured_and_at_most_the_first_ones_too():
    summary = run(
        input_s=0.5,
        parts={"epoch_start_s": 9.0, "compute_s": 10.0},
        record={"pipeline_start": PipelineStartRecord(4, mean_s=2.0)},
    )
    found = saving("slow-epoch-start", summary)
    assert (found.low_s, found.high_s, found.of_s) == (8.0, 11.0, WALL_S)


def test_of_validation_its_wait_is_saved_for_certain_and_all_of_it_at_most():
    summary = run(
        input_s=0.5,
        parts={"validation_s": 10.0},
        validation=ThroughputRecord("evaluate", 100, 90, 0.1, None),
        validation_input=InputRecord("evaluate", measured_steps=90, wait_s=0.06),
    )
    found = saving("long-validation", summary)
    assert (found.low_s, found.high_s, found.upper_bound) == (pytest.approx(6.0), 10.0, True)


def test_idle_gpus_promise_no_more_than_the_steps_own_time():
    idle = UtilizationRecord(100, 1.0, (GPUUtilization(0, utilization_percent=20.0),))
    summary = run(input_s=0.0, compute_s=20.0, gpus=(GPU,), utilization=idle)
    found = saving("low-utilization", summary)
    most_s = 20.0 * (1 - 0.2 * WALL_S / (WALL_S - 2.0))  # they idle in the first step, too
    assert (found.low_s, found.high_s, found.upper_bound) == (0.0, pytest.approx(most_s), True)


def test_no_saving_is_larger_than_the_run_and_none_is_known_without_its_time():
    assert of_run(run(), 30.0, 40.0, basis="wait") == Saving(WALL_S, WALL_S, WALL_S, "wait")
    assert of_run(run(), 30.0, 40.0, basis="wait").speed_up is None
    assert of_run(RunSummary(Environment({})), 1.0, 2.0, basis="wait") is None


@pytest.mark.parametrize("of_s", [0.0, -5.0])
def test_of_a_run_that_took_no_time_nothing_is_saved(of_s):
    with pytest.raises(ValueError, match="`of_s` must be above 0"):
        Saving(1.0, None, of_s, basis="wait")
    parts = TimeBreakdown(of_s, 1.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0)
    damaged = RunSummary(Environment({}), input=InputRecord("fit", breakdown=parts))
    assert of_run(damaged, 1.0, 2.0, basis="wait") is None
