"""The tables of captured profiles: each figure by its step, its unit and its name."""

from __future__ import annotations

from dataclasses import replace

import pytest

from keras_gpukit.records.profile import (
    DeviceProfile,
    KernelProfile,
    OperationProfile,
    ProfileRecord,
    StepProfile,
)
from keras_gpukit.records.report import CaptureReport
from keras_gpukit.reports.html.captures import captures_chart, each_step_chart

PROFILE = ProfileRecord(
    steps=8,
    step_time_s=0.0141,
    parts_s={"host compute": 0.0117, "idle": 0.0023, "between steps": 0.0001},
    kinds_s={"matmul": 0.0117},
    each_step=tuple(
        StepProfile(number, 0.0, 0.014, {"host compute": 0.0117}) for number in range(20, 28)
    ),
    operations=(OperationProfile("dense/MatMul", "MatMul", "matmul", 0.08, 16, 0.7),),
    kernels=(KernelProfile("sgemm", "matmul", 0.04, 4, 0.7, True),),
)


def captured(profile):
    return (CaptureReport("2026_11_23_10_00_00/vm", profile=profile),)


@pytest.mark.parametrize("first", [20, None])
def test_each_captured_step_has_its_own_number_or_is_counted(first):
    steps = [replace(each, number=first and each.number) for each in PROFILE.each_step]
    table = each_step_chart(captured(replace(PROFILE, each_step=tuple(steps)))).table
    assert [row[0] for row in table.rows] == [str((first or 1) + place) for place in range(8)]


def test_all_columns_of_a_capture_are_per_step():
    tables = dict(captures_chart(captured(PROFILE)).more)
    for what, figures in (
        ("operations", ("10 ms", "2", "70 %")),
        ("kernels", ("5 ms", "0.5", "70 %")),
    ):
        table = tables[f"Newest capture: longest {what}"]
        assert table.columns[2:] == ("time per step", "count per step", "share")
        assert table.rows[0][2:] == figures
    assert tables["Newest capture: computation by kind"].columns == ("kind", "time per step")


@pytest.mark.parametrize("devices", [(), (DeviceProfile("GPU:0", 0.5, 0.5, 9),)])
def test_where_the_rest_of_the_profile_tabs_host_compute_is_without_a_gpu(devices):
    words = captures_chart(captured(replace(PROFILE, devices=devices))).caption
    assert "host compute 11.7 ms" in words
    more = "Profile tab counts it as host compute too, 14 ms together"
    assert (more in words) == (not devices)
