"""Slower steps: headlined with when, how much and why; nothing said of healthy runs."""

import math

import pytest
from helpers.findings import bounds, codes, found
from helpers.findings import by_name as figures_of
from helpers.summaries import changing_run, ones_series, series_of_points, throughput

from keras_gpukit.records import (
    CaptureRecord,
    HostUtilization,
    InputRecord,
    PipelineCosts,
    PipelineRecord,
    ProcessUse,
    ProfilerRecord,
    PythonSourceRecord,
    StageRecord,
    TimeBreakdown,
    UtilizationRecord,
)
from keras_gpukit.rules import judge
from keras_gpukit.rules.savings import of_input

QUICK, SLOW = [39.0] * 36, [250.0] * 28
WALL_S = sum(QUICK + SLOW) * 10 / 1e3
READ = StageRecord("read_record", "map", "reading", "train.py:12")
DECODE = StageRecord("decode", "map", "decoding", "train.py:20")
ADDED_MS = 211.0


def slower(summary):
    return found("throughput-drops", summary)


def run(figures=None, **parts):
    """Steps that go from 39 to 250 ms in the 37th of 64 points, 72 s in."""
    speed = throughput(WALL_S / 640, 640, wall_s=WALL_S)
    figures = {"step/time_ms": QUICK + SLOW, **(figures or {})}
    return changing_run(figures, **{"throughput": speed, **parts})


def waits(before, after):
    return {"input/wait_ms": [before] * 36 + [after] * 28}


def costs(begin_s, end_s, *per_batch_ms):
    return PipelineCosts(begin_s, end_s, tuple(each / 1e3 for each in per_batch_ms))


def fed_by(*parts, **record):
    pipeline = PipelineRecord((DECODE, READ), DECODE, costs=parts)
    return InputRecord("fit", confidence="exact", pipeline=pipeline, **record)


def test_a_slow_stage_is_named_with_when_and_how_much():
    result = fed_by(costs(0, 60, 20, 3), costs(60, 80, 25, 40), costs(80, 128, 21, 214))
    finding = slower(run(waits(1.0, 1.0 + ADDED_MS), input=result))
    assert finding.title == (
        "Steps are 6.4× slower from step 361, 1.2 min in, when read_record slowed down "
        "(train.py:12)"
    )
    assert finding.severity == "critical"
    assert figures_of(finding)["earlier time per batch of read_record"] == pytest.approx(3.0)
    assert any("read_record" in line for line in finding.advice)
    assert bounds(finding) == pytest.approx((28 * 10 * ADDED_MS / 1e3,) * 2)
    assert (finding.saving.of_s, finding.saving.basis) == (WALL_S, "input wait since then")


def test_a_slowdown_of_the_input_comes_before_the_wait_that_came_with_it():
    total_s = 28 * 10 * ADDED_MS / 1e3
    result = fed_by(measured_steps=640, wait_s=total_s / 640, stall_fraction=total_s / WALL_S)
    summary = run(waits(0.0, ADDED_MS), input=result)
    assert of_input(summary).low_s >= slower(summary).saving.low_s
    assert codes(summary)[:2] == ["throughput-drops", "input-bound"]
    # A wait from the start comes before a small slowdown.
    levels = {"step/time_ms": [200.0] * 44 + [260.0] * 20}
    levels["input/wait_ms"] = [each - 20.0 for each in levels["step/time_ms"]]
    waiting = fed_by(measured_steps=640, wait_s=0.19, stall_fraction=0.87)
    assert codes(run(levels, input=waiting))[:2] == ["input-bound", "throughput-drops"]


def spent_in(**by_callback):
    parts = TimeBreakdown(WALL_S, 1.0, 10.0, 60.0, 0.0, 1.0, 0.0, 0.0, by_callback=by_callback)
    return fed_by(breakdown=parts)


def stepped(**figures):
    """Figures that change when steps become slower."""
    names = {"clock": "gpu/1/sm_clock_mhz", "cpu": "host/cpu_percent"}
    names |= {"own": "host/process_cpu_percent", "between": "step/between_ms"}
    return {names[each]: [one] * 36 + [later] * 28 for each, (one, later) in figures.items()}


UNKNOWN, OWN_WORK = "the input pipeline slowed down", "the steps' own work slowed down"
EXACT = InputRecord("fit", confidence="exact")
PYTHON = InputRecord("fit", confidence="exact", python=PythonSourceRecord("Photos.__getitem__"))
WAITS, COMPUTES = waits(1.0, 212.0), waits(1.0, 1.2)
BETWEEN = {**COMPUTES, **stepped(between=(2.0, 2.0 + ADDED_MS))}
NEIGHBOURS = stepped(cpu=(30.0, 99.0), own=(25.0, 25.0))
WHEN = [
    (WAITS, fed_by(costs(0, 140, 20, 3), costs(60, 120, 21, 214)), "read_record slowed down "),
    (WAITS, fed_by(costs(0, 60, 20, 3), costs(80, 128, 60, 43)), UNKNOWN),  # all stages
    (WAITS, fed_by(), UNKNOWN),
    (WAITS, EXACT, UNKNOWN),
    (WAITS, PYTHON, "Photos.__getitem__ slowed down"),
    ({**COMPUTES, **stepped(clock=(1980.0, 1005.0))}, fed_by(), "the clock of GPU:1 fell"),
    ({**COMPUTES, **stepped(clock=(1005.0, 1980.0))}, fed_by(), OWN_WORK),
    ({**COMPUTES, **NEIGHBOURS}, fed_by(), "other processes took more of the CPU"),
    # Of full cores, a few percent may be most of what this process had.
    ({**COMPUTES, **stepped(cpu=(98.0, 99.0), own=(12.0, 2.0))}, fed_by(), "other processes took"),
    ({**COMPUTES, **stepped(cpu=(80.0, 81.0), own=(12.0, 2.0))}, fed_by(), OWN_WORK),
    ({**COMPUTES, **stepped(cpu=(98.0, 99.0), own=(12.0, 9.0))}, fed_by(), OWN_WORK),
    # This process itself uses the cores.
    ({**COMPUTES, **stepped(cpu=(30.0, 99.0), own=(25.0, 90.0))}, fed_by(), OWN_WORK),
    (COMPUTES, fed_by(), OWN_WORK),
    (BETWEEN, spent_in(SaveOften=50.0, TensorBoard=5.0), "the callback SaveOften slowed down"),
    (BETWEEN, spent_in(SaveOften=20.0, TensorBoard=19.0), "callbacks slowed down"),
    (BETWEEN, fed_by(), "callbacks slowed down"),
]


@pytest.mark.parametrize(("figures", "record", "words"), WHEN)
def test_what_changed_at_the_same_time_is_named(figures, record, words):
    finding = slower(run(figures, input=record))
    assert f", when {words}" in finding.title
    assert finding.advice


def judged_callbacks(added_ms, compute, callbacks, **parts):
    """Findings on a run whose callbacks got slower, with the shares of compute and callbacks."""
    times = {
        "step/time_ms": [100.0] * 36 + [100.0 + added_ms] * 28,
        "step/between_ms": [2.0] * 36 + [2.0 + added_ms] * 28,
    }
    wall_s = sum(times["step/time_ms"]) / 100
    spent = TimeBreakdown(wall_s, 1.0, compute * wall_s, callbacks * wall_s, 0.0, 1.0, 0.0, 0.0)
    parts["throughput"] = throughput(wall_s / 640, 640, wall_s=wall_s)
    return judge(run({**waits(1, 1), **times}, input=fed_by(breakdown=spent), **parts)).findings


def test_an_error_precedes_a_slowdown_that_precedes_the_time_it_took():
    assert codes(run(BETWEEN, input=spent_in()))[:2] == ["throughput-drops", "slow-callbacks"]
    ended = {"ended_by": "ValueError in step 640", "ending": "interrupted"}
    findings = judged_callbacks(30.0, compute=0.8, callbacks=0.14, **ended)
    assert [(each.code, each.severity) for each in findings[:3]] == [
        ("ended-by-error", "critical"),
        ("throughput-drops", "warning"),
        ("slow-callbacks", "warning"),
    ]
    assert findings[1].saving.expected_s < findings[2].saving.expected_s
    # A warning of a slowdown stays below what is critical.
    callbacks, slowdown, *_ = judged_callbacks(45.0, compute=0.7, callbacks=0.24)
    assert (callbacks.code, callbacks.severity) == ("slow-callbacks", "critical")
    assert (slowdown.code, slowdown.severity) == ("throughput-drops", "warning")
    assert slowdown.saving.low_s > callbacks.saving.low_s / 2


def host(**figures):
    return UtilizationRecord(64, host=HostUtilization(**figures))


def test_other_processes_are_named_and_a_run_s_own_workers_are_none():
    figures = {**waits(1.0, 1.2), **NEIGHBOURS}
    seen = host(others=(ProcessUse("ffmpeg", 77, 60.0),))
    finding = slower(run(figures, input=fed_by(), utilization=seen))
    assert figures_of(finding)["CPU use of ffmpeg (pid 77)"] == 60.0
    assert finding.title.endswith("when other processes took more of the CPU")
    assert (finding.severity, finding.saving) == ("info", None)  # nothing in the script caused it
    for whose in ("children_cpu_percent", "job_cpu_percent"):
        title = slower(run(figures, input=fed_by(), utilization=host(**{whose: 70.0}))).title
        assert title.endswith("when the steps' own work slowed down")
    # An input that they slow down says so.
    result = fed_by(costs(0, 60, 20, 3), costs(80, 128, 21, 214))
    finding = slower(run({**waits(1.0, 212.0), **NEIGHBOURS}, input=result))
    assert "read_record slowed down" in finding.title
    assert figures_of(finding)["earlier CPU of others"] == pytest.approx(5.0)
    assert "the other processes" in finding.advice[0]


@pytest.mark.parametrize("confidence", [None, "upper bound"])
def test_where_the_wait_is_unknown_no_cause_is_made_up(confidence):
    known = InputRecord("fit", confidence=confidence) if confidence else None
    finding = slower(run(waits(1.0, 212.0) if confidence else {}, input=known))
    assert finding.title == "Steps are 6.4× slower from step 361, 1.2 min in"


def test_the_profile_after_the_change_is_named():
    def capture(step, path="gpukit/plugins/profile/a/host.xplane.pb"):
        reason = "steps took 250 ms, usually 39 ms"
        return CaptureRecord("a", "step time", reason, step, 10, 1.0, 1.0, 0.1, path)

    captures = ProfilerRecord((capture(20), capture(400, path=None), capture(410), capture(500)))
    advice = slower(run(captures=captures)).advice[0]
    assert "step 410 (steps took 250 ms, usually 39 ms)" in advice
    assert "step 20" in advice


def test_a_slowdown_costs_what_is_over_the_slow_and_the_quick_steps_before():
    there_and_back = slower(run({"step/time_ms": [40.0] * 20 + [120.0] * 20 + [41.0] * 24}))
    title = "Steps were 3× slower from step 201, 40 s in, until step 400"
    assert there_and_back.title.startswith(title)
    assert bounds(there_and_back)[0] == pytest.approx(20 * 10 * 0.08)
    restless = slower(run({"step/time_ms": [36.0, 44.0] * 18 + [120.0] * 28}))
    assert bounds(restless) == pytest.approx((280 * 0.076, 280 * 0.084))


@pytest.mark.parametrize(
    ("point_s", "after", "words"),
    [
        (0.5, 60.0, "1.5× slower from step 361, 18 s in"),
        (0.2, 4000.0, "103× slower from step 361, 7.2 s in"),
        (400.0, 78.0, "2× slower from step 361, 4 h in"),
        (40_000.0, 78.0, "2× slower from step 361, 400 h in"),
    ],
)
def test_figures_of_all_sizes_can_be_read(point_s, after, words):
    levels = {"step/time_ms": [39.0] * 36 + [after] * 28}
    speed = throughput(0.1, 640, wall_s=1e9)
    assert words in slower(changing_run(levels, point_s=point_s, throughput=speed)).title


def drifting(levels):
    rising = {"step/time_ms": levels, "input/wait_ms": [level - 39.0 for level in levels]}
    return slower(run(rising, input=fed_by()))


def test_a_drift_is_from_the_first_third_to_the_last():
    finding = drifting([40.0 * math.exp(math.log(3) * point / 63) for point in range(64)])
    assert finding.title == (
        "Steps became 2.1× slower from the first third of the run to the last, when the input "
        "pipeline slowed down"
    )
    before, after = finding.evidence[2:4]
    assert before.value < 10
    assert after.value > 60
    # After a level, it is compared with that.
    finding = drifting([40.0] * 30 + [40.0 + 3 * point for point in range(34)])
    assert finding.title.startswith("Steps became 2.7× slower from the first third")
    assert finding.evidence[2].value == pytest.approx(1.0, abs=2.0)


HEALTHY = {
    "steady": [40.0] * 64,
    "faster, as when a cache is filled": [200.0] * 20 + [40.0] * 44,
    "warm-up: buffers that are used up": [20.0] * 4 + [40.0] * 60,
    "a short slowdown": [40.0] * 30 + [60.0] * 3 + [40.0] * 31,
    "one hiccup": [40.0] * 30 + [4000.0] + [40.0] * 33,
}


@pytest.mark.parametrize("levels", HEALTHY.values(), ids=HEALTHY)
def test_healthy_runs_have_none(levels):
    assert "throughput-drops" in judge(run({"step/time_ms": levels})).passed


def test_a_short_run_warms_up_in_its_first_fifth():
    def judged(*levels):
        series = series_of_points("step/time_ms", levels, point_s=0.5)
        return judge(ones_series(series, throughput=throughput(0.1, 1, wall_s=16.0)))

    assert "throughput-drops" in judged(*[20.0] * 5, *[40.0] * 27).passed
    assert judged(*[20.0] * 10, *[40.0] * 22).findings[0].code == "throughput-drops"
    # One of a few seconds is too short, however many epochs it has.
    # Each epoch ends a point, so these are 64 points of 3.2 s in all.
    verdict = judge(changing_run({"step/time_ms": QUICK + SLOW}, point_s=0.05))
    assert "at least 10 s" in verdict.not_applicable["throughput-drops"]
