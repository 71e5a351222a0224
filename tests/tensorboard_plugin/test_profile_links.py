"""Links from a report in the tab to the traces of its captures."""

from __future__ import annotations

from dataclasses import replace

import pytest

from keras_gpukit.records import CaptureRecord
from keras_gpukit.tensorboard_plugin.report_pages import trace_url

CAPTURE = CaptureRecord(
    "2026_step_34",
    "steps",
    "step 34 of the run",
    34,
    10,
    1.7e9,
    1.0,
    0.0,
    path="gpukit/plugins/profile/2026_step_34/vm.local.xplane.pb",
)


@pytest.fixture
def log_dir(tmp_path):
    file = tmp_path / "a b" / CAPTURE.path
    file.parent.mkdir(parents=True)
    file.touch()
    return tmp_path / "a b"


def test_a_capture_leads_to_its_trace_in_the_profile_tab(tmp_path, log_dir):
    address = trace_url(tmp_path, log_dir, CAPTURE)
    run = "a%20b%2Fgpukit%2F2026_step_34"
    assert address == f"../../../?run={run}&tag=trace_viewer%40&host=vm.local#profile"
    alone = trace_url(log_dir, log_dir, CAPTURE)
    assert alone.startswith("../../../?run=gpukit%2F2026_step_34&")


def test_there_is_no_link_to_what_is_not_there(tmp_path, log_dir):
    assert trace_url(None, log_dir, CAPTURE) is None
    assert trace_url(tmp_path, log_dir, replace(CAPTURE, path=None)) is None
    assert trace_url(tmp_path, tmp_path / "removed", CAPTURE) is None
