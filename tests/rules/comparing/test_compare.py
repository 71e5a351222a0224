"""What differs between two runs, by their records."""

from dataclasses import replace

import pytest
from helpers.recorded_runs import DECODE, GIB, PLACEMENT, READ, SUMMARY
from helpers.summaries import series_of_points

from keras_gpukit import records
from keras_gpukit.reports.comparison import headline, reasons
from keras_gpukit.rules import judge
from keras_gpukit.rules.comparing.compare import compare_runs, judge_condition, parse_condition

NOISE = (0.0, 0.3, -0.2, 0.1, -0.3, 0.2, -0.1, 0.0) * 4
CACHE = records.StageRecord("cache", "cache", "caching")


def summary(step_ms: float = 25.0, wait_ms: float = 10.0, between_ms: float = 1.0, **parts):
    """A run of 32 windows, with a little noise in its steps."""
    steps = [step_ms + each for each in NOISE]
    series = (
        series_of_points(records.STEP_TIME, steps),
        series_of_points(records.INPUT_WAIT, [wait_ms] * len(steps)),
        series_of_points(records.INPUT_STALL, [100 * wait_ms / each for each in steps]),
        series_of_points(records.BETWEEN_STEPS, [between_ms] * len(steps)),
        series_of_points(records.EXAMPLE_RATE, [32e3 / each for each in steps]),
    )
    speed = {"step_time_s": step_ms / 1e3, "examples_per_s": 32e3 / step_ms}
    throughput = replace(SUMMARY.throughput, **speed)
    return replace(SUMMARY, series=series, **{"throughput": throughput, **parts})


def with_stages(*stages: records.StageRecord, **of_run) -> records.RunSummary:
    pipeline = records.PipelineRecord(stages, stages[0] if stages else None)
    return summary(**of_run, input=replace(SUMMARY.input, pipeline=pipeline))


def report(name: str, summary: records.RunSummary) -> records.RunReport:
    return records.RunReport(name, "completed", "fit", summary=summary)


def compared(a: records.RunSummary, b: records.RunSummary):
    return compare_runs([report("a", a)], [report("b", b)])


def is_met(condition: str, result) -> bool | None:
    return judge_condition(parse_condition(condition), result).is_met


def causes(result) -> list[tuple[str, str]]:
    return [(each.kind, each.name) for each in result.causes]


def marks(result) -> dict[str, str]:
    return {each.name: each.mark for each in result.figures if each.mark in ("better", "worse")}


def test_a_slower_run_is_worse_a_faster_one_better_and_noise_is_neither():
    result = compared(summary(), summary(28.0))
    step = result.figure("step_time")
    assert step.change == pytest.approx(0.12)
    assert step.low < step.change < step.high
    assert step.has_windows
    assert marks(result) == {"step_time": "worse", "examples_per_s": "worse"}
    assert set(marks(compared(summary(28.0), summary())).values()) == {"better"}
    noise = compared(summary(), summary(25.5))
    assert (marks(noise), noise.figure("step_time").mark) == ({}, "no difference")
    assert noise.causes == ()


def test_shares_and_the_whole_run_s_time_are_marked_only_where_they_can_be_compared():
    assert "input_stall" not in marks(compared(summary(), summary(50.0)))
    assert marks(compared(summary(), summary(wait_ms=5.0))) == {"input_stall": "better"}
    longer = replace(SUMMARY.throughput, wall_s=128.0)
    assert marks(compared(summary(), summary(throughput=longer))) == {"run_time": "worse"}
    assert marks(compared(summary(), summary(throughput=replace(longer, steps=4800)))) == {}


def test_a_figure_without_windows_is_marked_beyond_its_allowance_only():
    def holding(peak: float, device: str = "GPU:0", **causes):
        devices = (records.DeviceMemory(device, GIB, int(peak * GIB)),)
        return summary(memory=records.MemoryRecord(devices, **causes))

    assert marks(compared(holding(5.0), holding(5.05))) == {}
    assert marks(compared(holding(5.0), holding(5.5))) == {"peak_memory": "worse"}
    # Threads of a CPU decide which tensors there are at a time.
    assert marks(compared(holding(5.0, "CPU:0"), holding(5.5, "CPU:0"))) == {}
    causes = {"weights_bytes": GIB, "slots_bytes": 2 * GIB}
    result = compared(holding(5.0, **causes), holding(5.5, **causes))
    assert result.figure("weights").change == 0.0
    assert result.figure("step_memory").change == pytest.approx(0.25)
    unknown = compared(holding(5.0), summary(memory=None)).figure("peak_memory")
    assert (unknown.a, unknown.b, unknown.change, unknown.mark) == (5 * GIB, None, None, None)


def test_a_short_run_and_a_wait_that_is_only_a_bound_have_no_interval():
    result = compared(replace(summary(), series=()), summary(40.0))
    step = result.figure("step_time")
    assert (step.change, step.low, step.mark) == (pytest.approx(0.6), None, None)
    assert is_met("step_time>+10%", result) is None
    bound = summary(input=replace(SUMMARY.input, confidence="upper bound"))
    result = compared(bound, summary(wait_ms=14.0))
    assert result.figure("input_stall").low is None
    assert result.figure("input_stall").wait_is_bound
    assert result.parts == ()


def test_pipelines_are_compared_stage_by_stage():
    prefetch = records.StageRecord("prefetch", "prefetch", "other")
    slower = replace(DECODE, parallelism=1, cost_per_batch_s=0.032)
    before = with_stages(prefetch, DECODE, CACHE, READ)
    result = compared(before, with_stages(slower, READ, wait_ms=15.0, step_ms=30.0))
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
    def written(*names: str, **of_run) -> records.RunSummary:
        pipeline = records.PipelineRecord((DECODE, READ), DECODE, written=names)
        return summary(**of_run, input=replace(SUMMARY.input, pipeline=pipeline))

    before = written("batch", "decode", "shuffle", "take", "files")
    # Behind the full cache, the sources do not run.
    names = ("prefetch", "batch", "shuffle", "cache", "decode", "files")
    fast = written(*names, wait_ms=1.0, step_ms=16.0)
    cached = replace(fast.pipeline, stages=(CACHE,))
    fast = replace(fast, input=replace(fast.input, pipeline=cached))
    stages = [each for each in compared(before, fast).causes if "stage" in each.kind]
    assert [(each.kind, each.name, each.a, each.b) for each in stages] == [
        ("written stage", "decode", "after shuffle", "after files"),
        ("written stage", "cache after decode", None, "present"),
        ("written stage", "prefetch after batch", None, "present"),
        ("written stage", "take after files", "present", None),
    ]


def test_a_stage_on_another_line_is_the_same_stage_and_python_code_is_one():
    def at(line: int):
        return replace(DECODE, name=f"lambda at train.py:{line}", location=f"train.py:{line}")

    def of_workers(count: int):
        code = records.PythonSourceRecord("Photos", "a.py:3", count, time_per_batch_s=0.02)
        return summary(input=replace(SUMMARY.input, pipeline=None, python=code))

    result = compared(with_stages(at(12), READ), with_stages(CACHE, at(14), READ))
    assert result.stages[1] == records.StagePair(at(12), at(14), (True, False))
    [pair] = compared(of_workers(4), of_workers(1)).stages
    assert (pair.a.parallelism, pair.b.parallelism) == (4, 1)


def test_a_stage_whose_time_is_small_next_to_the_change_is_no_cause():
    tiny, slower = (replace(READ, cost_per_batch_s=each) for each in (1e-6, 9e-6))
    after = with_stages(DECODE, slower, step_ms=30.0, wait_ms=15.0)
    result = compared(with_stages(DECODE, tiny), after)
    assert [each.kind for each in result.causes] == ["part"]


def test_settings_that_differ_are_named_and_the_others_counted():
    differs = {"precision": "mixed_bfloat16", "settings": {"PYTHONDEVMODE": "PYTHONDEVMODE=1"}}
    b = summary(environment=replace(SUMMARY.environment, **differs))
    result = compared(summary(), b)
    assert {(each.name, each.a, each.b) for each in result.settings} == {
        ("precision", "float32", "mixed_bfloat16"),
        ("PYTHONDEVMODE", None, "PYTHONDEVMODE=1"),
    }
    assert result.equal_settings > 5
    # Another batch size is compared by examples per second.
    double = replace(SUMMARY.throughput, step_time_s=0.05, examples_per_s=1280.0)
    result = compared(summary(), summary(50.0, throughput=double))
    assert result.headline == "examples_per_s"
    assert ("examples per step", "32", "64") in {(s.name, s.a, s.b) for s in result.settings}
    assert compared(summary(), summary(50.0)).headline == "step_time"


def profiled(**times_s: float) -> records.ProfileRecord:
    made = (
        records.LayerProfile(path.replace("__", "/"), "layer", s, 0.0, {}, 1)
        for path, s in times_s.items()
    )
    return records.ProfileRecord(steps=4, layers=tuple(made))


def test_slower_layers_and_moved_operations_are_named_with_slower_compute():
    fast, slow = (profiled(model__conv=0.004, model__dense=each) for each in (0.003, 0.008))
    moved = replace(PLACEMENT, operations={"GPU:0": {"MatMul": 189}, "CPU:0": {"MatMul": 3}})
    result = compared(summary(profile=fast), summary(30.0, profile=slow, operations=moved))
    assert result.layers[0] == records.TimePair("model/dense", 0.003, 0.008)
    assert causes(result) == [
        ("part", "compute"),
        ("layer", "model/dense"),
        ("placement", "operations on GPU:0"),
        ("placement", "operations on CPU:0"),
    ]
    assert compared(summary(profile=fast), summary()).layers == ()
    # Layers that Keras numbered otherwise are the same.
    first = profiled(sequential_1__dense_1=0.002, sequential_1__dense_2=0.001)
    second = profiled(sequential_5__dense_5=0.002, sequential_5__dense_6=0.004)
    layers = compared(summary(profile=first), summary(profile=second)).layers
    name = "sequential_1/dense_2 → sequential_5/dense_6"
    assert layers[0] == records.TimePair(name, 0.001, 0.004)
    assert layers[1].difference_s == 0.0


def test_a_layer_has_one_row_whatever_its_place_and_its_roles():
    first = profiled(conv=0.004, dense=0.002, optimizer=0.003, old=0.001)
    second = profiled(optimizer=0.003, dense=0.001, new=0.002, conv=0.006)
    again = replace(second.layers[1], role="other", time_s=0.0005)
    second = replace(second, layers=(*second.layers, again))
    rows = compared(summary(profile=first), summary(profile=second)).layers
    assert {each.name: (each.a_s, each.b_s) for each in rows} == {
        "conv": (0.004, 0.006),
        "new": (None, 0.002),
        "old": (0.001, None),
        "dense": (0.002, 0.0015),
        "optimizer": (0.003, 0.003),
    }


def test_a_callback_that_sleeps_is_named():
    def spending(seconds: float):
        parts = replace(SUMMARY.input.breakdown, by_callback={"Saver": seconds})
        return replace(SUMMARY.input, breakdown=parts)

    before = summary(input=spending(1.0))
    result = compared(before, summary(29.0, between_ms=5.0, input=spending(10.0)))
    assert causes(result) == [("part", "callbacks between steps"), ("callback", "Saver")]


def on_host(*percent: float, step_ms: float = 25.0, **figures) -> records.RunSummary:
    host = records.HostUtilization(*percent, **figures)
    return summary(step_ms, utilization=replace(SUMMARY.utilization, host=host))


def test_page_faults_are_named_with_the_kernel_s_time():
    def faulting(step_ms, kernel_cores, per_s):
        used = {"user_cores": 1.0, "kernel_cores": kernel_cores, "page_faults_per_s": per_s}
        return on_host(step_ms=step_ms, **used)

    before, after = faulting(20.0, 0.0, 500.0), faulting(40.0, 1.0, 100_000.0)
    cause = next(each for each in compared(before, after).causes if each.kind == "page faults")
    assert (cause.name, cause.a) == ("the kernel, 10 → 4,000 page faults", 0.0)
    assert cause.b == pytest.approx(0.02)
    fewer = compared(before, faulting(40.0, 1.0, 200.0)).causes
    assert "page faults" not in {each.kind for each in fewer}


def test_a_machine_that_others_used_makes_a_comparison_doubtful():
    quiet, busy = on_host(25.0, 20.0), on_host(90.0, 20.0)
    [cause] = compared(quiet, busy).causes
    assert (cause.kind, cause.a, cause.b) == ("other processes", 0.05, pytest.approx(0.7))
    longer = replace(busy, throughput=replace(SUMMARY.throughput, wall_s=128.0))
    result = compared(quiet, longer)
    assert marks(result) == {}
    assert is_met("run_time>+10%", result) is None


@pytest.mark.parametrize(
    ("percent", "is_real"), [((100.0, 95.0), True), ((80.0, 40.0), True), ((100.0, 40.0), False)]
)
def test_others_on_busy_cores_make_the_interval_wide_enough_for_what_they_took(percent, is_real):
    result = compared(summary(), on_host(*percent, step_ms=40.0))
    assert result.figure("step_time").is_real is is_real


def test_a_rate_is_all_examples_over_all_time_so_it_changes_as_the_step_time_does():
    steps = [20.0, 60.0] * 16
    means = {records.STEP_TIME: steps, records.EXAMPLE_RATE: [32e3 / each for each in steps]}
    uneven = replace(summary(40.0), series=tuple(map(series_of_points, means, means.values())))
    figures = compared(summary(40.0), uneven).figures
    step, rate = (each.change for each in figures if each.name in ("step_time", "examples_per_s"))
    assert 1 + rate == pytest.approx(1 / (1 + step))


def test_a_clear_change_is_clear_though_others_took_half_of_the_cores_from_both_runs():
    slow, fast = (on_host(100.0, 42.0, step_ms=each) for each in (36.0, 13.0))
    result = compared(slow, fast)
    step = result.figure("step_time")
    assert (step.mark, result.figure("examples_per_s").mark) == ("better", "better")
    assert -1 < step.low < step.change < step.high < 0
    assert marks(compared(slow, on_host(100.0, 42.0, step_ms=26.0))) == {}


def test_equal_code_is_called_equal_whatever_others_took():
    """Steps of 20 ms of processor time, which others made 2.2 times as long."""
    alone = on_host(95.0, 90.0, user_cores=1.6, kernel_cores=0.2, step_ms=11.0)
    shared = on_host(100.0, 41.0, user_cores=0.7, kernel_cores=0.12, step_ms=24.6)
    result = compared(alone, shared)
    assert result.figure("cpu_time").change == pytest.approx(0.02, abs=0.01)
    assert result.figure("step_time").mark == "not distinguishable"
    assert result.figure("examples_per_s").mark == "not distinguishable"
    said = " ".join(reasons(result))
    assert "a step's processor time, which they change little: 19.8 ms → 20.2 ms" in said
    faster = on_host(100.0, 41.0, user_cores=0.7, kernel_cores=0.12, step_ms=5.0)
    assert compared(alone, faster).figure("step_time").mark == "better"


def test_without_windows_a_step_time_has_no_mark_whoever_uses_the_cores():
    for percent in ((20.0, 20.0), (100.0, 40.0)):
        short = [replace(on_host(*percent, step_ms=ms), series=()) for ms in (20.0, 40.0)]
        assert compared(*short).figure("step_time").mark is None


def test_a_script_that_takes_less_with_equal_steps_is_called_faster():
    long, short = (
        replace(summary(), script=records.ScriptRecord(wall_s, 9.0, 2.0))
        for wall_s in (127.0, 45.0)
    )
    result = compared(long, short)
    said = headline(result)[1]
    assert said == "b is 2.82× faster than a: whole script 2.12 min → 45 s, read once a run."
    assert result.headline == "script_time"
    other_steps = replace(short, throughput=replace(short.throughput, steps=7))
    assert compared(long, other_steps).headline == "step_time"
    assert compared(replace(long, script=None), short).headline == "step_time"


def test_findings_of_one_run_only_are_named():
    fixed = summary(input=replace(SUMMARY.input, wait_s=0.0, stall_fraction=0.0))
    result = compared(summary(), replace(fixed, verdict=judge(fixed)))
    assert result.found == ()
    assert any("waiting for data" in title for title in result.gone)


@pytest.mark.parametrize(
    ("text", "expected"),
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
def test_a_condition_is_met_by_a_real_change_beyond_it(text, expected):
    assert is_met(text, compared(summary(), summary(28.0))) is expected


def test_a_change_beyond_the_condition_that_may_be_noise_does_not_meet_it():
    result = compared(summary(), summary(25.5))
    assert result.figure("step_time").change > 0.01
    assert is_met("step_time>+1%", result) is False
    assert [
        judge_condition(parse_condition(each), result).is_inconclusive
        for each in ("step_time>+1%", "step_time>+10%", "step_time<-10%")
    ] == [True, False, False]


FORM = r"FIGURE>\+N% for a rise .* figures are step_time, .* Received: '"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        *((each, FORM) for each in ("step_time", "step_time>10", "step_time>-10%", "=5%")),
        ("examples_per_s<+5%", FORM),
        ("speed>+10%", r"no figure 'speed'; figures are step_time, examples_per_s"),
    ],
)
def test_what_is_no_condition_is_refused_with_the_form(text, message):
    with pytest.raises(ValueError, match=message):
        parse_condition(text)


def test_repeats_must_have_the_same_settings():
    other = summary(environment=replace(SUMMARY.environment, jit_compile=True))
    runs = [report("one", summary()), report("two", other)]
    with pytest.raises(ValueError, match=r"not repeats of one: jit_compile is .* in one and yes"):
        compare_runs(runs, runs[:1])


def test_a_share_changes_by_no_more_than_it_can():
    def stalling(often: float, seldom: float):
        levels = [often if place % 4 else seldom for place in range(32)]
        made = summary()
        return replace(
            made, series=(*made.series[:2], series_of_points(records.INPUT_STALL, levels))
        )

    found = compared(stalling(95.0, 5.0), stalling(5.0, 24.0)).figure("input_stall")
    assert found.high - found.low <= 1
