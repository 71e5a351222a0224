"""What a finding promises: seconds of the run's wall time, never more than there are."""

import json
from dataclasses import replace

import pytest
from helpers.findings import bounds, found
from helpers.processes import ROOT
from helpers.summaries import breakdown, stall, throughput

from keras_gpukit import records
from keras_gpukit.rules import judge
from keras_gpukit.rules.compute.host_cpu import page_faults_saving
from keras_gpukit.rules.savings import of_callbacks, of_rates, of_run, severity

GPU = records.GPUInfo(0, compute_capability=(8, 0))
WALL_S = 25.0
PAUSED_S = 0.15 * 18.5
"""What steps of a CPU gain if they no longer start after that wait: 15 % of it."""


def run(contention=None, confidence="exact", gpus=(), spent=(18.5, 4.5, 2.0), cores=None, **more):
    """A run of 1,000 steps whose input, compute and first step took 18.5, 4.5 and 2 of its 25 s."""
    (input_s, compute_s, first_s), record = spent, more.pop("record", {})
    steps_s = input_s + compute_s
    parts = {"input_s": input_s, "compute_s": compute_s, "first_step_s": first_s}
    rest = {"other_s": WALL_S - steps_s - first_s, **more.pop("parts", {})}
    record = stall(
        *(input_s / steps_s, confidence),
        wait_s=input_s / 1000,
        breakdown=breakdown(WALL_S, **{**parts, **rest}),
        contention=contention,
        **record,
    )
    speed = throughput(steps_s / 1000, wall_s=WALL_S)
    environment = records.Environment({}, gpus=gpus, cpu_count=cores)
    return records.RunSummary(environment, speed, record, **more)


def saving(code, summary):
    return found(code, summary).saving


def promised(code, summary):
    """The least and the most, and whether it is only an upper bound."""
    return *bounds(found(code, summary)), saving(code, summary).upper_bound


def test_a_wait_of_74_percent_of_the_run_makes_it_about_3_8_times_as_fast():
    first, *_ = judge(run()).findings
    assert first.title == "74 % of the time is spent waiting for data"  # 18.5 of 25 s
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
    if row["reported"] > 0.15
    and not ("8 steps, " in name or name.endswith(("ready", "transferred")))
]


@pytest.mark.parametrize("name", STALLED_FITS)
def test_ready_batches_saved_an_h100_what_is_promised_of_the_wait(name):
    row, ready = H100_FITS[name], H100_FITS[f"{name.partition('/')[0]}/ready"]
    waits, steps_s = row["reported"], 20.0
    summary = run(
        spent=(steps_s * waits, steps_s * (1 - waits), 2.0),
        confidence=row["confidence"],
        gpus=(GPU,),
        record={"most_stall_fraction": row.get("most")},
    )
    low_s, high_s, _ = promised("input-bound", summary)
    assert low_s <= steps_s * (1 - ready["step_ms"] / row["step_ms"]) <= high_s


WAITS, BUSY = (18.5, 4.5, 2.0), records.ContentionRecord(0.0, 0.9)


@pytest.mark.parametrize(
    ("contention", "cores", "spent", "high_s"),
    [
        (None, None, WAITS, None),  # not measured
        (records.ContentionRecord(0.0, None), None, WAITS, None),
        (BUSY, None, WAITS, 18.5 + 0.8 * 4.5),  # a fifth of the steps' work remains
        # Mostly idle: little to free.
        (records.ContentionRecord(0.0, 0.05), None, WAITS, 18.5 + PAUSED_S + 1.15 / 2),
        # Sharing busy cores costs the steps at most half of their work.
        (BUSY, None, (5.0, 15.0, 2.0), 5.0 + 15.0 / 2 + 0.15 * 5.0),
        # Cores that input was seen to use; stages that sleep take nothing from the steps.
        (records.ContentionRecord(0.0, 0.9, 0.0), 4, WAITS, 18.5 + PAUSED_S),
        (records.ContentionRecord(0.0, 0.9, 0.005), 4, WAITS, 18.5 + PAUSED_S + 0.005 * 4 * 23),
        (records.ContentionRecord(0.0, 0.9, 0.5), 4, WAITS, 18.5 + 0.8 * 4.5),
    ],
)
def test_on_a_cpu_cores_that_input_frees_speed_the_steps_up(contention, cores, spent, high_s):
    summary = run(contention, cores=cores, spent=spent)
    most_s = None if high_s is None else pytest.approx(high_s)
    assert promised("input-bound", summary) == (spent[0], most_s, False)


@pytest.mark.parametrize(
    ("gpus", "compute_s", "high_s"),
    [
        # 10 s in callbacks between steps of 8 ms, and 2 s of them between epochs.
        ((), 8.0, 12.0 + 0.15 * 10.0),
        ((GPU,), 8.0, 12.0),
        # No time between steps: every callback ran between epochs.
        ((), 18.0, 12.0),
    ],
)
def test_steps_of_a_cpu_also_gain_where_callbacks_between_them_go(gpus, compute_s, high_s):
    parts = {"callbacks_s": 12.0, "compute_s": compute_s}
    summary = run(spent=(0.0, 8.0, 2.0), gpus=gpus, parts=parts)
    speed = replace(summary.throughput, step_time_s=0.018)
    summary = replace(summary, throughput=speed)
    assert promised("slow-callbacks", summary)[:2] == pytest.approx((11.75, high_s))


def test_pauses_for_callbacks_slow_steps_by_no_more_than_these_callbacks_took():
    found = of_callbacks(replace(run(), throughput=throughput(0.033, wall_s=WALL_S)), 5.0, 6.0)
    assert (found.low_s, found.high_s) == (5.0, pytest.approx(6.0 * 1.15))


@pytest.mark.parametrize(
    ("gpus", "low_s", "high_s"), [((), 0.5 * 0.3 * 23, 2 * 0.3 * 23), ((GPU,), 0.0, 2 * 0.3 * 18.5)]
)
def test_without_page_faults_half_to_twice_the_kernel_s_share_is_saved(gpus, low_s, high_s):
    found = page_faults_saving(run(gpus=gpus), 0.3)
    assert (found.low_s, found.high_s) == (pytest.approx(low_s), pytest.approx(high_s))


def test_steps_that_are_twice_as_fast_save_half_of_their_time():
    found = of_rates(run(), records.Rate(1.5, 1.25, 2.0, "times"))
    assert (found.low_s, found.high_s) == (pytest.approx(23 / 5), pytest.approx(23 / 2))


def test_cores_and_the_gil_that_input_takes_save_at_most_the_steps_time():
    summary = run(records.ContentionRecord(0.0, 0.9, 0.25), spent=(0.5, 20.0, 2.0), cores=2)
    assert promised("cpu-contention", summary) == (0.0, 0.5 * 20.5, True)
    summary = run(records.ContentionRecord(0.0006, 0.5))  # a fifth of the steps' work remains
    assert promised("input-bound", summary) == (18.5, 18.5 + 0.8 * 4.5, True)


def test_a_wait_that_is_not_exact_is_a_range():
    sampled = run(confidence="sampled", gpus=(GPU,))
    margin_s = 0.05 * 23
    assert promised("input-bound", sampled)[:2] == (18.5 - margin_s, 18.5 + margin_s)
    most = run(confidence="upper bound", record={"buffered_batches": 0.0})
    assert promised("input-bound", most) == (0.0, 18.5, True)


def test_a_cause_is_as_severe_as_its_part_of_the_run_without_the_first_step():
    short = records.Saving(2.0, None, WALL_S, "wait")
    assert severity(short, run()) == "info"
    assert severity(short, run(spent=(18.5, 4.5, 15.0))) == "critical"
    assert severity(replace(short, low_s=2.5), run(spent=(18.5, 4.5, 0.0))) == "warning"


def test_epoch_starts_save_what_was_measured_and_at_most_the_first_ones_too():
    start = {"pipeline_start": records.PipelineStartRecord(4, mean_s=2.0)}
    parts = {"epoch_start_s": 9.0, "compute_s": 10.0}
    made = saving("slow-epoch-start", run(spent=(0.5, 4.5, 2.0), parts=parts, record=start))
    assert (made.low_s, made.high_s, made.of_s) == (8.0, 11.0, WALL_S)
    # Of validation, its wait is saved for certain, and all of it at most.
    summary = run(
        spent=(0.5, 4.5, 2.0),
        parts={"validation_s": 10.0},
        validation=records.ThroughputRecord("evaluate", 100, 90, 0.1, None),
        validation_input=records.InputRecord("evaluate", measured_steps=90, wait_s=0.06),
    )
    assert promised("long-validation", summary) == (pytest.approx(6.0), 10.0, True)


def test_idle_gpus_promise_no_more_than_the_steps_own_time():
    idle = records.UtilizationRecord(100, (records.GPUUtilization(0, utilization_percent=20.0),))
    summary = run(spent=(0.0, 20.0, 2.0), gpus=(GPU,), utilization=idle)
    most_s = 20.0 * (1 - 0.2 * WALL_S / (WALL_S - 2.0))  # they idle in the first step, too
    assert promised("low-utilization", summary) == (0.0, pytest.approx(most_s), True)


def test_no_saving_is_larger_than_the_run_and_none_is_known_without_its_time():
    assert of_run(run(), 30.0, 40.0, basis="wait") == records.Saving(WALL_S, WALL_S, WALL_S, "wait")
    assert of_run(run(), 30.0, 40.0, basis="wait").speed_up is None
    assert of_run(records.RunSummary(records.Environment({})), 1.0, 2.0, basis="wait") is None


@pytest.mark.parametrize("of_s", [0.0, -5.0])
def test_of_a_run_that_took_no_time_nothing_is_saved(of_s):
    with pytest.raises(ValueError, match="`of_s` must be above 0"):
        records.Saving(1.0, None, of_s, basis="wait")
    parts = records.TimeBreakdown(of_s, 1.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0)
    damaged = records.RunSummary(
        records.Environment({}), input=records.InputRecord("fit", breakdown=parts)
    )
    assert of_run(damaged, 1.0, 2.0, basis="wait") is None
