"""Settings that slow a run are named with what they cost, and only where they cost something."""

from dataclasses import replace

import pytest
from helpers.findings import bounds, by_name
from helpers.findings import found as finding
from helpers.screens import panel
from helpers.summaries import breakdown, stall, throughput

from keras_gpukit import records
from keras_gpukit.rules import judge
from keras_gpukit.rules.setup import slowing_settings
from keras_gpukit.rules.setup.slowing_settings import NOT_MEASURED

GPUS = (records.GPUInfo(0, "NVIDIA H100"),)
STEPS = 1000
COMPUTE_S = 60.0
UNKNOWN = records.TimeBreakdown(100.0, None, None, 1.0, 1.0, 3.0, 0.0, 0.0)
ENVIRONMENT = records.Environment({}, cpu_count=4, steps_per_execution=1)


def run(*keys, gpus=(), eager=False, preprocessing=(), profile=None, busy=0.9, work="mapping", **s):
    """A run of 100 s: 60 s of compute, the rest for the parts given, else unknown."""
    parts = breakdown(**{"first_step_s": 1.0, "compute_s": COMPUTE_S, **s})
    wait_s = parts.input_s / STEPS
    stage = records.StageRecord("rows", "generator", work, cost_per_batch_s=wait_s)
    settings = {"settings": {key: key for key in keys}, "preprocessing": preprocessing}
    return records.RunSummary(
        replace(ENVIRONMENT, gpus=gpus, run_eagerly=eager, **settings),
        throughput=throughput(0.06 + wait_s, STEPS),
        input=stall(
            wait_s / (wait_s + 0.06),
            wait_s=wait_s,
            breakdown=parts,
            pipeline=records.PipelineRecord((stage,), stage),
            contention=records.ContentionRecord(0.0, busy),
        ),
        profile=profile,
    )


def found(summary, code="slow-settings"):
    return finding(code, summary)


# What a setting costs, and where it costs nothing


@pytest.mark.parametrize(
    ("key", "costs", "free"),
    [
        (slowing_settings.CHECK_NUMERICS, {}, {"compute_s": 8.0}),
        (slowing_settings.ACTIVE_PROFILER, {}, {"compute_s": 9.0}),
        ("TF_CPP_MAX_VLOG_LEVEL", {}, {"compute_s": 9.0}),
        ("CUDA_LAUNCH_BLOCKING", {"gpus": GPUS}, {}),
        (slowing_settings.DETERMINISM, {"gpus": GPUS}, {}),
        ("TF_ENABLE_ONEDNN_OPTS", {}, {"gpus": GPUS}),
        (slowing_settings.PLACEMENT_LOG, {"eager": True}, {}),
        (slowing_settings.ONE_INTRA_THREAD, {"busy": 0.25}, {"busy": 0.9}),
        (slowing_settings.TRACE, {"callbacks_s": 20.0}, {}),
        (slowing_settings.DEBUG_BUILD, {"input_s": 20.0, "work": "python"}, {"input_s": 20.0}),
        ("XLA_FLAGS", {"first_step_s": 20.0}, {}),
    ],
)
def test_a_setting_is_named_only_where_the_part_that_it_slows_takes_time(key, costs, free):
    named = found(run(key, **costs))
    assert slowing_settings.undone({key: slowing_settings.SETTINGS[key]})[0].text in named.advice
    assert len(named.title) <= 100
    assert found(run(key, **free)) is None


def test_at_most_the_part_that_it_slows_is_promised():
    assert bounds(found(run("XLA_FLAGS", first_step_s=20.0))) == (0.0, 20.0)
    one_core = found(run(slowing_settings.ONE_INTRA_THREAD, busy=0.25))
    assert bounds(one_core)[1] == pytest.approx(COMPUTE_S * 3 / 4)
    assert one_core.saving.upper_bound
    # Where no figure can be read, none is promised.
    unknown = found(run("CUDA_LAUNCH_BLOCKING", gpus=GPUS))
    assert unknown.saving is None
    assert unknown.advice == ("unset CUDA_LAUNCH_BLOCKING", NOT_MEASURED)
    # What is often chosen on purpose is a remark.
    assert found(run("TF_ENABLE_ONEDNN_OPTS")).severity == "info"
    assert found(run("TF_CPP_MAX_VLOG_LEVEL")).severity == "warning"


def test_all_settings_that_matter_are_undone_the_costliest_first():
    keys = (
        records.RUN_FUNCTIONS_EAGERLY,
        slowing_settings.CHECK_NUMERICS,
        slowing_settings.ACTIVE_PROFILER,
    )
    both = found(run(*keys[1:], keys[0]))
    assert both.title.startswith(keys[0])
    assert both.actions[:3] == slowing_settings.undone(
        {key: slowing_settings.SETTINGS[key] for key in keys}
    )


def test_variables_count_by_their_values():
    environment = {
        "TF_ENABLE_ONEDNN_OPTS": "0",
        "CUDA_LAUNCH_BLOCKING": "0",
        "XLA_FLAGS": "--xla_cpu_use_acl=true --xla_dump_to=/tmp/hlo",
        "TF_XLA_FLAGS": "--tf_xla_enable_xla_devices",
        "TF_CPP_MAX_VLOG_LEVEL": "0",
    }
    assert slowing_settings.slow_variables(environment) == {
        "TF_ENABLE_ONEDNN_OPTS": "TF_ENABLE_ONEDNN_OPTS=0",
        "XLA_FLAGS": f"XLA_FLAGS={environment['XLA_FLAGS']}",
    }


# Eager steps


def eager(idle_s, host_s=0.0, device_s=0.0, step_s=0.06, matmul_s=0.0, devices=()):
    parts = {"idle": idle_s, "host compute": host_s, "device compute": device_s}
    kinds = {"matmul": matmul_s, "elementwise": host_s - matmul_s}
    return records.ProfileRecord(
        steps=8, step_time_s=step_s, parts_s=parts, kinds_s=kinds, devices=devices
    )


def test_eager_steps_are_named_with_the_time_in_python():
    result = found(run(eager=True, profile=eager(0.045, 0.015, matmul_s=0.002)))
    assert result.title.startswith("compile(run_eagerly=True) starts each operation of a step ")
    assert result.title.endswith("from Python: 45 of 100 s")
    assert result.advice == ("compile(run_eagerly=False)",)
    assert result.severity == "critical"
    assert bounds(result) == pytest.approx((45.0, COMPUTE_S - 2.0))
    # What a profiler adds to eager steps is no cost of theirs, and a GPU keeps its time.
    slowed = found(run(eager=True, profile=eager(0.065, 0.015, step_s=0.08)))
    assert bounds(slowed)[0] == pytest.approx(45.0)
    devices = (records.DeviceProfile("GPU:0", 0.2, kernels=100),)
    on_gpu = eager(0.04, 0.008, 0.012, devices=devices)
    most_s = bounds(found(run(eager=True, gpus=GPUS, profile=on_gpu)))[1]
    assert most_s == pytest.approx(COMPUTE_S - 12.0)
    # They have one cause.
    findings = judge(run(eager=True)).findings
    assert [each.code for each in findings] == ["slow-settings", "no-gpu"]
    assert findings[0].saving is None


# Input


def test_the_debug_mode_of_tf_data_is_the_cause_of_a_wait_for_input():
    slow = run(slowing_settings.DEBUG_MODE, input_s=30.0)
    result = found(slow, "input-bound")
    cause = f"waiting for data: {slowing_settings.DEBUG_MODE} runs tf.data serially in Python"
    assert result.title.endswith(cause)
    assert result.advice == (f"remove {slowing_settings.DEBUG_MODE}",)
    assert (result.severity, result.saving.low_s) == ("critical", 0.0)
    assert judge(slow).findings[0] == result
    assert found(run(slowing_settings.DEBUG_MODE, input_s=1.0), "input-bound") is None
    slow = replace(slow, input=replace(slow.input, stall_fraction=None, breakdown=UNKNOWN))
    result = found(slow)
    assert result.title == f"{slowing_settings.DEBUG_MODE} runs tf.data serially in Python"
    assert result.evidence[0].value == pytest.approx(95.0)


# Preprocessing layers in the model


LAYERS = ("random_flip", "random_rotation")
ROTATES = "functional/augment/random_rotation_1/ImageProjectiveTransformV3"


def profile(*operations, host_s=0.06, devices=()):
    """Eight steps of 60 ms, with operations of so many milliseconds each."""
    all_ms = sum(ms for _, ms in operations)
    made = (
        records.OperationProfile(name, "Op", "other", 8 * ms / 1e3, 8, ms / all_ms)
        for name, ms in operations
    )
    parts_s = {"device compute" if devices else "host compute": host_s}
    known = {"parts_s": parts_s, "operations": tuple(made), "devices": devices}
    return records.ProfileRecord(steps=8, step_time_s=0.06, **known)


AUGMENTS = profile((ROTATES, 24.0), ("functional/augment/random_flip/Sel", 12.0), ("conv/C", 24.0))


def test_preprocessing_layers_are_named_with_their_share():
    result = found(run(preprocessing=LAYERS, profile=AUGMENTS), "preprocessing-in-model")
    assert result.title.startswith("Preprocessing in the model takes 60 % of each step, mostly ")
    assert result.title.endswith("random_rotation")
    assert result.severity == "critical"
    assert bounds(result) == pytest.approx((36.0 * 0.9, (36.0 + 0.3) * 1.1))
    assert by_name(result)["share of random_rotation"] == pytest.approx(40.0)
    # Operations that ran in parallel are taken off at the lower end.
    parallel = replace(AUGMENTS, parts_s={"host compute": 0.048})
    result = found(run(preprocessing=LAYERS, profile=parallel), "preprocessing-in-model")
    assert bounds(result)[0] == pytest.approx(24.0 * 0.9)


def test_layers_go_into_the_input_only_where_that_helps():
    def first(cpu_percent=95.0, **more):
        summary = run(preprocessing=LAYERS, profile=AUGMENTS, **more)
        host = records.UtilizationRecord(9, host=records.HostUtilization(cpu_percent, 30.0))
        return found(replace(summary, utilization=host), "preprocessing-in-model").advice

    assert "ds.map" in first(50.0)[0]
    assert "ds.map" in first(gpus=GPUS)[0]
    few, moved, _ = first()
    assert few.startswith("fewer or cheaper layers")
    assert "only as much as cores are idle" in moved
    assert not any("ds.map" in line for line in first(input_s=30.0))
    summary = run(preprocessing=LAYERS, profile=AUGMENTS)
    assert panel(replace(summary, verdict=judge(summary))).count("\n") <= 14


def test_cheap_layers_and_models_without_any_are_no_finding():
    cheap = profile((ROTATES, 3.0), ("conv/C", 57.0))
    on_gpu = replace(cheap, devices=(records.DeviceProfile("GPU:0", 0.9, kernels=100),))
    for each in (cheap, replace(on_gpu, parts_s={"device compute": 0.06})):
        assert "preprocessing-in-model" in judge(run(preprocessing=LAYERS, profile=each)).passed
    without = judge(run(profile=AUGMENTS)).not_applicable
    assert "no preprocessing layers" in without["preprocessing-in-model"]
    unseen = judge(run(preprocessing=LAYERS)).not_applicable
    assert "a profile" in unseen["preprocessing-in-model"]


# TensorBoard


def test_tensorboard_is_advised_on_what_it_was_asked_for():
    def result(at_epochs_s, **arguments):
        times = {"by_callback": {"TensorBoard": 28.0}}
        times["callbacks_at_epochs"] = {"TensorBoard": at_epochs_s}
        summary = run(callbacks_s=30.0, **times)
        written = {f"TensorBoard.{key}": f"{key}={each}" for key, each in arguments.items()}
        environment = replace(summary.environment, settings=written)
        return found(replace(summary, environment=environment), "slow-callbacks")

    given = {"histogram_freq": 1, "profile_batch": (5, 50)}
    histograms, both = result(27.0, **given), result(10.0, **given)
    assert histograms.title == "TensorBoard(histogram_freq=1) takes 28 of 100 s"
    assert histograms.advice[0].startswith("TensorBoard(histogram_freq=0), or less often")
    assert both.title == "TensorBoard(profile_batch=(5, 50), histogram_freq=1) takes 28 of 100 s"
    assert "18 s between steps, 10 s at epochs' ends" in both.advice[0]
    assert result(27.0).title == "TensorBoard takes 28 of 100 s"
    assert not any("update_freq" in line for line in result(27.0).advice)
