"""The tables of captured profiles: each figure by its step, its unit and its name."""

from __future__ import annotations

from keras_gpukit.records.profile import (
    DeviceProfile,
    KernelProfile,
    OperationProfile,
    ProfileRecord,
    StepProfile,
)
from keras_gpukit.records.report import CaptureReport
from keras_gpukit.reports.html.captures import captures_chart, each_step_chart

STEPS = 8
PROFILE = ProfileRecord(
    steps=STEPS,
    step_time_s=0.0141,
    parts_s={"host compute": 0.0117, "idle": 0.0023, "between steps": 0.0001},
    kinds_s={"matmul": 0.0117},
    each_step=tuple(
        StepProfile(number, 0.0, 0.014, {"host compute": 0.0117}) for number in range(20, 28)
    ),
    operations=(OperationProfile("dense/MatMul", "MatMul", "matmul", 0.08, 16, 0.7),),
    kernels=(KernelProfile("sgemm", "matmul", 0.04, 4, 0.7, True),),
)
CAPTURES = (CaptureReport("2026_11_23_10_00_00/vm", profile=PROFILE),)


def test_each_captured_step_has_its_own_number():
    table = each_step_chart(CAPTURES).table
    assert [row[0] for row in table.rows] == [str(number) for number in range(20, 28)]


def test_steps_without_numbers_are_counted():
    unmarked = tuple(StepProfile(None, 0.0, 0.014, {"host compute": 0.0117}) for _ in range(3))
    profile = ProfileRecord(steps=3, each_step=unmarked)
    table = each_step_chart((CaptureReport("folder/vm", profile=profile),)).table
    assert [row[0] for row in table.rows] == ["1", "2", "3"]


def test_all_columns_of_a_capture_are_per_step():
    tables = dict(captures_chart(CAPTURES).more)
    operations = tables["Newest capture: longest operations"]
    assert operations.columns[2:] == ("time per step", "count per step", "share")
    assert operations.rows[0][2:] == ("10 ms", "2", "70 %")
    kernels = tables["Newest capture: longest kernels"]
    assert kernels.columns[2:] == ("time per step", "count per step", "share")
    assert kernels.rows[0][2:] == ("5 ms", "0.5", "70 %")
    assert tables["Newest capture: computation by kind"].columns == ("kind", "time per step")


def test_where_the_rest_of_the_profile_tabs_host_compute_is():
    words = captures_chart(CAPTURES).caption
    assert "host compute 11.7 ms" in words
    assert "Profile tab counts it as host compute too, 14 ms together" in words


def test_on_a_gpu_host_compute_is_not_compared():
    profile = ProfileRecord(
        steps=2,
        parts_s={"host compute": 0.01, "idle": 0.01},
        devices=(DeviceProfile("GPU:0", 0.5, 0.5, 9),),
    )
    assert "Profile tab" not in captures_chart((CaptureReport("a/vm", profile=profile),)).caption
