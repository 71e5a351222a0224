"""What differs between two runs, by their records."""

from __future__ import annotations

from dataclasses import replace

import pytest
from helpers.recorded_runs import DECODE, GIB, PLACEMENT, READ, SUMMARY
from helpers.series import series_of_points

from keras_gpukit.records import (
    BETWEEN_STEPS,
    EXAMPLE_RATE,
    INPUT_STALL,
    INPUT_WAIT,
    STEP_TIME,
    DeviceMemory,
    HostUtilization,
    LayerProfile,
    MemoryRecord,
    PipelineRecord,
    ProfileRecord,
    PythonSourceRecord,
    RunReport,
    RunSummary,
    StagePair,
    StageRecord,
    TimePair,
)
from keras_gpukit.rules import judge
from keras_gpukit.rules.comparing.compare import (
    compare_runs,
    is_inconclusive,
    judge_condition,
    parse_condition,
)

NOISE = (0.0, 0.3, -0.2, 0.1, -0.3, 0.2, -0.1, 0.0) * 4
CACHE = StageRecord("cache", "cache", "caching")


def summary(step_ms: float = 25.0, wait_ms: float = 10.0, between_ms: float = 1.0, **parts):
    """A run of 32 windows, with a little noise in its steps."""
    steps = [step_ms + each for each in NOISE]
    series = (
        series_of_points(STEP_TIME, steps),
        series_of_points(INPUT_WAIT, [wait_ms] * len(steps)),
        series_of_points(INPUT_STALL, [100 * wait_ms / each for each in steps]),
        series_of_points(BETWEEN_STEPS, [between_ms] * len(steps)),
        series_of_points(EXAMPLE_RATE, [32e3 / each for each in steps]),
    )
    throughput = replace(
        SUMMARY.throughput, step_time_s=step_ms / 1e3, examples_per_s=32e3 / step_ms
    )
    return replace(SUMMARY, series=series, **{"throughput": throughput, **parts})


def with_stages(*stages: StageRecord, **of_run) -> RunSummary:
    pipeline = PipelineRecord(stages, stages[0] if stages else None)
    return summary(**of_run, input=replace(SUMMARY.input, pipeline=pipeline))


def compared(a: RunSummary, b: RunSummary):
    return compare_runs(
        *(
            [RunReport(name, "completed", "fit", summary=each)]
            for name, each in (("a", a), ("b", b))
        )
    )


def marks(result) -> dict[str, str]:
    return {each.name: each.mark for each in result.figures if each.mark in ("better", "worse")}


def test_a_slower_run_is_worse_and_a_faster_one_better():
    result = compared(summary(), summary(28.0))
    step = result.figure("step_time")
    assert step.change == pytest.approx(0.12)
    assert step.low < step.change < step.high
    assert step.has_windows
    assert marks(result) == {"step_time": "worse", "examples_per_s": "worse"}
    assert set(marks(compared(summary(28.0), summary())).values()) == {"better"}


def test_runs_that_differ_by_noise_are_marked_in_nothing():
    result = compared(summary(), summary(25.5))
    assert marks(result) == {}
    assert result.figure("step_time").mark == "no difference"
    assert result.causes == ()


def test_a_smaller_share_of_waiting_is_better_only_if_the_wait_is_shorter():
    assert "input_stall" not in marks(compared(summary(), summary(50.0)))
    assert marks(compared(summary(), summary(wait_ms=5.0))) == {"input_stall": "better"}


def test_a_figure_without_windows_is_marked_beyond_its_allowance_only():
    def holding(peak: float, device: str = "GPU:0"):
        return summary(memory=MemoryRecord((DeviceMemory(device, GIB, int(peak * GIB)),)))

    assert marks(compared(holding(5.0), holding(5.05))) == {}
    assert marks(compared(holding(5.0), holding(5.5))) == {"peak_memory": "worse"}
    # Threads of a CPU decide which tensors there are at a time.
    assert marks(compared(holding(5.0, "CPU:0"), holding(5.5, "CPU:0"))) == {}
    causes = {"weights_bytes": GIB, "slots_bytes": 2 * GIB}
    memory = replace(holding(5.5).memory, **causes)
    result = compared(
        summary(memory=replace(holding(5.0).memory, **causes)), summary(memory=memory)
    )
    assert result.figure("weights").change == 0.0
    assert result.figure("step_memory").change == pytest.approx(0.25)
    unknown = compared(holding(5.0), summary(memory=None)).figure("peak_memory")
    assert (unknown.a, unknown.b, unknown.change, unknown.mark) == (5 * GIB, None, None, None)


def test_the_whole_run_s_time_is_marked_for_equally_many_steps_only():
    longer = replace(SUMMARY.throughput, wall_s=128.0)
    assert marks(compared(summary(), summary(throughput=longer))) == {"run_time": "worse"}
    assert marks(compared(summary(), summary(throughput=replace(longer, steps=4800)))) == {}


def test_a_short_run_has_changes_but_no_interval():
    result = compared(replace(summary(), series=()), summary(40.0))
    step = result.figure("step_time")
    assert (step.change, step.low, step.mark) == (pytest.approx(0.6), None, None)
    assert judge_condition(parse_condition("step_time>+10%"), result) is None


def test_a_wait_that_is_only_a_bound_has_no_interval_and_no_parts():
    bound = summary(input=replace(SUMMARY.input, confidence="upper bound"))
    result = compared(bound, summary(wait_ms=14.0))
    assert result.figure("input_stall").low is None
    assert result.figure("input_stall").wait_is_bound
    assert result.parts == ()


def test_pipelines_are_compared_stage_by_stage():
    prefetch = StageRecord("prefetch", "prefetch", "other")
    slower = replace(DECODE, parallelism=1, cost_per_batch_s=0.032)
    a, b = (
        with_stages(prefetch, DECODE, CACHE, READ),
        with_stages(slower, READ, wait_ms=15.0, step_ms=30.0),
    )
    result = compared(a, b)
    assert [(pair.a and pair.a.name, pair.b and pair.b.name) for pair in result.stages] == [
        ("prefetch", None),
        ("decode", "decode"),
        ("cache", None),
        ("files", "files"),
    ]
    assert result.stages[1].is_bottleneck == (False, True)
    assert [(each.kind, each.name, each.a, each.b) for each in result.causes] == [
        ("part", "input wait", pytest.approx(0.01), pytest.approx(0.015)),
        ("stage", "decode (train.py:12)", "2 parallel", "1 parallel"),
        ("stage time", "decode (train.py:12)", 0.016, 0.032),
    ]
    assert result.causes[0].share == pytest.approx(1.0)


def test_stages_of_the_scripts_are_named_by_what_they_follow():
    def written(*names: str, **of_run) -> RunSummary:
        pipeline = PipelineRecord((DECODE, READ), DECODE, written=names)
        return summary(**of_run, input=replace(SUMMARY.input, pipeline=pipeline))

    before = written("batch", "decode", "shuffle", "files")
    # Behind the full cache, the sources do not run.
    fast = written("prefetch", "batch", "cache", "decode", "files", wait_ms=1.0, step_ms=16.0)
    cached = replace(fast.pipeline, stages=(CACHE,))
    fast = replace(fast, input=replace(fast.input, pipeline=cached))
    stages = [each for each in compared(before, fast).causes if "stage" in each.kind]
    assert [(each.kind, each.name, each.a, each.b) for each in stages] == [
        ("written stage", "shuffle after files", "present", None),
        ("written stage", "cache after decode", None, "present"),
        ("written stage", "prefetch after batch", None, "present"),
    ]


def test_a_stage_on_another_line_is_the_same_stage():
    def at(line: int):
        return replace(DECODE, name=f"lambda at train.py:{line}", location=f"train.py:{line}")

    result = compared(with_stages(at(12), READ), with_stages(CACHE, at(14), READ))
    assert result.stages[1] == StagePair(at(12), at(14), (True, False))


def test_python_code_that_makes_batches_is_a_stage():
    def of_workers(count: int):
        python = PythonSourceRecord(
            "Photos.__getitem__", "train.py:3", count, time_per_batch_s=0.02
        )
        return summary(input=replace(SUMMARY.input, pipeline=None, python=python))

    [pair] = compared(of_workers(4), of_workers(1)).stages
    assert (pair.a.parallelism, pair.b.parallelism) == (4, 1)


def test_settings_that_differ_are_named_and_the_others_counted():
    b = summary()
    environment = replace(
        b.environment, precision="mixed_bfloat16", settings={"PYTHONDEVMODE": "PYTHONDEVMODE=1"}
    )
    result = compared(summary(), replace(b, environment=environment))
    assert {(each.name, each.a, each.b) for each in result.settings} == {
        ("precision", "float32", "mixed_bfloat16"),
        ("PYTHONDEVMODE", None, "PYTHONDEVMODE=1"),
    }
    assert result.equal_settings > 5


def test_another_batch_size_is_compared_by_examples_per_second():
    double = replace(SUMMARY.throughput, step_time_s=0.05, examples_per_s=1280.0)
    result = compared(summary(), summary(50.0, throughput=double))
    assert result.headline == "examples_per_s"
    assert ("examples per step", "32", "64") in {(s.name, s.a, s.b) for s in result.settings}
    assert compared(summary(), summary(50.0)).headline == "step_time"


def test_slower_layers_and_moved_operations_are_named_with_slower_compute():
    def profiled(dense_s: float):
        layers = (
            LayerProfile("model/conv", "layer", 0.004, 0.0, {}, 1),
            LayerProfile("model/dense", "layer", dense_s, 0.0, {}, 1),
        )
        return ProfileRecord(steps=4, layers=layers)

    moved = replace(PLACEMENT, operations={"GPU:0": {"MatMul": 189}, "CPU:0": {"MatMul": 3}})
    result = compared(
        summary(profile=profiled(0.003)), summary(30.0, profile=profiled(0.008), operations=moved)
    )
    assert result.layers[0] == TimePair("model/dense", 0.003, 0.008)
    assert [(each.kind, each.name) for each in result.causes] == [
        ("part", "compute"),
        ("layer", "model/dense"),
        ("placement", "operations on GPU:0"),
        ("placement", "operations on CPU:0"),
    ]
    assert compared(summary(profile=profiled(0.003)), summary()).layers == ()


def test_layers_that_keras_numbered_otherwise_are_the_same():
    def profiled(first: int, *times_s: float):
        layers = [
            LayerProfile(f"sequential_{first}/dense_{first + at}", "layer", time_s, 0.0, {}, 1)
            for at, time_s in enumerate(times_s)
        ]
        return summary(profile=ProfileRecord(steps=4, layers=tuple(layers)))

    result = compared(profiled(1, 0.002, 0.001), profiled(5, 0.002, 0.004))
    name = "sequential_1/dense_2 → sequential_5/dense_6"
    assert result.layers[0] == TimePair(name, 0.001, 0.004)
    assert result.layers[1].difference_s == 0.0


def test_a_stage_whose_time_is_small_next_to_the_change_is_no_cause():
    tiny = replace(READ, cost_per_batch_s=1e-6)
    result = compared(
        with_stages(DECODE, tiny),
        with_stages(DECODE, replace(tiny, cost_per_batch_s=9e-6), step_ms=30.0, wait_ms=15.0),
    )
    assert [each.kind for each in result.causes] == ["part"]


def test_a_callback_that_sleeps_is_named():
    def spending(seconds: float):
        parts = replace(SUMMARY.input.breakdown, by_callback={"Saver": seconds})
        return replace(SUMMARY.input, breakdown=parts)

    result = compared(
        summary(input=spending(1.0)), summary(29.0, between_ms=5.0, input=spending(10.0))
    )
    assert [(each.kind, each.name) for each in result.causes] == [
        ("part", "callbacks between steps"),
        ("callback", "Saver"),
    ]


def test_page_faults_are_named_with_the_kernel_s_time():
    def faulting(step_ms, kernel_cores, per_s):
        host = HostUtilization(user_cores=1.0, kernel_cores=kernel_cores, page_faults_per_s=per_s)
        return summary(step_ms, utilization=replace(SUMMARY.utilization, host=host))

    before, after = faulting(20.0, 0.0, 500.0), faulting(40.0, 1.0, 100_000.0)
    cause = next(each for each in compared(before, after).causes if each.kind == "page faults")
    assert (cause.name, cause.a) == ("the kernel, 10 → 4,000 page faults", 0.0)
    assert cause.b == pytest.approx(0.02)
    fewer = compared(before, faulting(40.0, 1.0, 200.0)).causes
    assert "page faults" not in {each.kind for each in fewer}


def test_a_machine_that_others_used_makes_a_comparison_doubtful():
    def busy(cpu_percent: float):
        host = HostUtilization(cpu_percent, 20.0)
        return summary(utilization=replace(SUMMARY.utilization, host=host))

    [cause] = compared(busy(25.0), busy(90.0)).causes
    assert (cause.kind, cause.a, cause.b) == ("other processes", 0.05, pytest.approx(0.7))
    longer = replace(busy(90.0), throughput=replace(SUMMARY.throughput, wall_s=128.0))
    result = compared(busy(25.0), longer)
    assert marks(result) == {}
    assert judge_condition(parse_condition("run_time>+10%"), result) is None


def test_others_on_busy_cores_make_the_interval_wide_enough_for_what_they_took():
    def others(cpu_percent: float, own_percent: float):
        host = HostUtilization(cpu_percent, own_percent)
        return summary(40.0, utilization=replace(SUMMARY.utilization, host=host))

    assert compared(summary(), others(100.0, 95.0)).figure("step_time").is_real
    assert compared(summary(), others(80.0, 40.0)).figure("step_time").is_real
    assert not compared(summary(), others(100.0, 40.0)).figure("step_time").is_real


def test_findings_of_one_run_only_are_named():
    fixed = summary(input=replace(SUMMARY.input, wait_s=0.0, stall_fraction=0.0))
    result = compared(summary(), replace(fixed, verdict=judge(fixed)))
    assert result.found == ()
    assert any("waiting for data" in title for title in result.gone)


@pytest.mark.parametrize(
    ("text", "is_met"),
    [
        ("step_time>+10%", True),
        ("step_time>10%", True),
        (" examples_per_s < -5% ", True),
        ("step_time>+15%", False),
        ("step_time<-10%", False),
        ("input_stall>+1%", False),
        ("gpu_busy>+1%", False),
    ],
)
def test_a_condition_is_met_by_a_real_change_beyond_it(text, is_met):
    assert judge_condition(parse_condition(text), compared(summary(), summary(28.0))) is is_met


def test_a_change_beyond_the_condition_that_may_be_noise_does_not_meet_it():
    result = compared(summary(), summary(25.5))
    assert result.figure("step_time").change > 0.01
    assert judge_condition(parse_condition("step_time>+1%"), result) is False
    assert is_inconclusive(parse_condition("step_time>+1%"), result)
    assert not is_inconclusive(parse_condition("step_time>+10%"), result)
    assert not is_inconclusive(parse_condition("step_time<-10%"), result)


@pytest.mark.parametrize(
    "text", ["step_time", "step_time>10", "step_time>-10%", "examples_per_s<+5%", "=5%"]
)
def test_what_is_no_condition_is_refused_with_the_form(text):
    with pytest.raises(
        ValueError, match=r"FIGURE>\+N% for a rise .* figures are step_time, .* Received: '"
    ):
        parse_condition(text)


def test_an_unknown_figure_is_refused_with_the_known_ones():
    with pytest.raises(
        ValueError, match=r"no figure 'speed'; figures are step_time, examples_per_s"
    ):
        parse_condition("speed>+10%")


def test_repeats_must_have_the_same_settings():
    runs = [
        RunReport(name, "completed", "fit", summary=summary(environment=each))
        for each, name in (
            (SUMMARY.environment, "one"),
            (replace(SUMMARY.environment, jit_compile=True), "two"),
        )
    ]
    with pytest.raises(ValueError, match=r"not repeats of one: jit_compile is .* in one and yes"):
        compare_runs(runs, runs[:1])


def test_a_share_changes_by_no_more_than_it_can():
    noisy = [5.0 if place % 4 else 24.0 for place in range(32)]
    runs = [
        replace(
            summary(25.0), series=(*summary(25.0).series[:2], series_of_points(INPUT_STALL, each))
        )
        for each in ([95.0 if place % 4 else 5.0 for place in range(32)], noisy)
    ]
    found = compared(*runs).figure("input_stall")
    assert found.high - found.low <= 1
