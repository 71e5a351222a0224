"""Readings and events of a run summed up: GPUs, the host, figures over time in few points."""

from dataclasses import replace

import pytest
from helpers.recorded_runs import BEGAN_S, only_run, run_lines

from keras_gpukit.records import (
    OVERHEAD,
    GPUSample,
    GPUUtilization,
    HostSample,
    HostUtilization,
    Overhead,
    RunEvent,
    StepWindow,
    ThroughputRecord,
    UtilizationRecord,
)
from keras_gpukit.saved_runs.folding import SERIES_POINTS, RunFold
from keras_gpukit.saved_runs.folding.downsampling import MOST_EVENTS


def folded(kind, records) -> UtilizationRecord:
    fold = RunFold()
    for record in records:
        fold.add_record(kind, record, 1.0, 1)
    return fold.utilization()


def summed_up(*samples: GPUSample):
    (found,) = folded("gpu", samples).gpus
    return found


def test_a_gpu_is_summed_up_over_the_run_and_what_nobody_could_tell_is_unknown():
    hot, power = "hardware thermal slowdown", "software power cap"
    summary = summed_up(
        GPUSample(1, 100.0, 5, 3, 2, 10, 300.0, 70.0, 1400, 60.0, 4.0, 30.0, (power, hot)),
        GPUSample(1, 50.0, 7, 4, 3, 10, 100.0, 80.0, 1000, 40.0, 8.0, None, (hot, power)),
        GPUSample(1, None, 6, None, 1, 10, None, 75.0, 1200, throttle_reasons=()),
        GPUSample(1, throttle_reasons=None),
    )
    assert vars(summary) == {
        "index": 1,
        "utilization_percent": 75.0,
        "memory_others_max_bytes": 3,
        "memory_total_bytes": 10,
        "sm_active_percent": 50.0,
        "tensor_active_percent": 6.0,
        "throttle_fractions": dict.fromkeys((hot, power), pytest.approx(2 / 3)),
        "lost_because": None,
    }
    summary = summed_up(GPUSample(0, 50.0))
    assert summary.throttle_fractions is None


def test_a_gpu_that_was_lost_is_named_with_its_readings():
    fold = RunFold()
    lost = GPUUtilization(1, lost_because="GPU is lost"), GPUUtilization(2, lost_because="absent")
    fold.add_record("utilization", UtilizationRecord(0, lost), 1.0, 0)
    assert fold.utilization().gpus == ()  # none was ever read, which has one reason for all
    for index in (0, 1):
        fold.add_record("gpu", GPUSample(index, 50.0), 1.0, 1)
    found = [(each.utilization_percent, each.lost_because) for each in fold.utilization().gpus]
    assert found == [(50.0, None), (50.0, "GPU is lost"), (None, "absent")]


def test_the_host_is_summed_up_over_the_run_and_nothing_read_is_not():
    samples = HostSample(10.0, 4.0, 9, 90, 100, None), HostSample(30.0, 8.0, 7, 80, 100, 50.0)
    found = folded("host", samples)
    assert found.samples == 2
    assert found.host == HostUtilization(20.0, 6.0, 9, 80)
    assert folded("host", ()) is None


def test_page_faults_and_the_kernel_s_time_are_means_over_readings_within_steps():
    outside = HostSample(user_cores=None)
    samples = outside, HostSample(user_cores=1.0, kernel_cores=0.5, page_faults_per_s=300.0)
    found = folded("host", (*samples, replace(samples[1], user_cores=2.0))).host
    assert (found.user_cores, found.kernel_cores, found.page_faults_per_s) == (1.5, 0.5, 300.0)
    assert found.kernel_fraction == 0.25


def test_a_container_s_limit_leaves_less_than_the_machine():
    reading = HostSample(memory_available_bytes=80, memory_limit_bytes=10)
    found = folded("host", [replace(reading, memory_limit_used_bytes=used) for used in (7, 9, 8)])
    assert found.host.memory_available_min_bytes == 1
    wide = replace(reading, memory_limit_bytes=200, memory_limit_used_bytes=9)
    assert folded("host", [wide]).host.memory_available_min_bytes == 80
    assert found.host.cpu_percent is None


def window(step, duration_s=0.1, **others):
    return StepWindow("fit", 100.0 + step / 10, step, 3, duration_s, **others)


def series_of(windows):
    fold = RunFold(SERIES_POINTS)
    fold.add_record("run", window(0), 100.0, None)
    for each in windows:
        fold.add_record("steps", each, each.time_s, each.step)
    return {series.tag: series for series in fold.summary().series}


def test_a_long_series_stays_small_and_loses_nothing():
    found = series_of(window(step, 0.75 if step > 5000 else 0.12) for step in range(1, 10_001))
    series = found["step/time_ms"]
    assert SERIES_POINTS / 2 <= len(series.mean) <= SERIES_POINTS
    assert (series.step[-1], series.elapsed_s[-1]) == (10_000, 1000.0)
    assert sum(series.weight) == 30_000
    assert (series.mean[0], series.mean[-1]) == (40.0, 250.0)


def test_points_have_the_weighted_mean_gaps_have_none_and_those_of_one_step_are_kept():
    known = [window(step, 0.1 if step % 2 else 0.4, input_wait_s=0.05) for step in range(1, 301)]
    found = series_of([*(replace(each, input_wait_s=None) for each in known[:30]), *known[30:]])
    assert set(found["input/stall_percent"].mean) == {20.0}
    assert set(found["step/time_ms"].mean) == {83.3333}
    assert found["step/time_ms"].step[:2] == (4, 8)
    assert found["input/wait_ms"].step[0] == 32
    found = series_of([window(1), window(1), window(2)])
    assert found["step/time_ms"].weight == (3.0, 3.0, 3.0)


def test_steps_after_the_last_record_count_next_to_those_that_were_in_no_window():
    fold = RunFold()
    fold.add_record("steps", window(5), 101.0, 5)
    fold.add_record("throughput", ThroughputRecord("fit", 5, 3, 0.1, None), 101.0, 5)
    fold.add_record("steps", window(8), 102.0, 8)
    assert (fold.throughput().steps, fold.throughput().measured_steps) == (8, 6)


def test_overhead_is_per_step_and_shown_in_microseconds():
    fold = RunFold(SERIES_POINTS)
    fold.add_record("throughput", ThroughputRecord("fit", 100, 98, 0.1, None), 100.0, 100)
    fold.phase = "fit"
    fold.add_record("overhead", Overhead(4e-6, 100, total_s=5e-4, startup_s=0.1), 101.0, 100)
    summary = fold.summary()
    assert (summary.overhead_s, summary.startup_s) == (pytest.approx(5e-6), 0.1)
    assert {series.tag: series.mean for series in summary.series} == {OVERHEAD: (4.0,)}


def test_of_many_events_neighbours_are_merged_and_their_time_is_kept():
    fold = RunFold()
    for number in range(10 * MOST_EVENTS):
        event = RunEvent("epoch", BEGAN_S + 3 * number, 2.0, number, number + 1)
        fold.add_record("event", event, event.ended_s, number)
    merged = fold.events()
    assert MOST_EVENTS / 2 <= len(merged) <= MOST_EVENTS
    assert sum(event.count for event in merged) == 10 * MOST_EVENTS
    assert sum(event.spent_s for event in merged) == 2.0 * 10 * MOST_EVENTS
    assert [event.number for event in merged[:2]] == [1, 1 + merged[0].count]
    assert merged[0].duration_s == 3 * merged[0].count - 1
    assert merged[-1].ended_s == BEGAN_S + 3 * (10 * MOST_EVENTS - 1) + 2


def test_an_event_at_no_time_is_counted_as_unreadable(tmp_path):
    lines = run_lines(3)
    lines.insert(-1, (BEGAN_S + 3, 0, "event", RunEvent("epoch", -5.0, 1.0)))
    run = only_run(tmp_path, lines)
    assert run.events == ()
    assert "an event at no time" in run.notes[0]
