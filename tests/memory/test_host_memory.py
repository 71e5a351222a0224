"""A run that the system killed for the host's memory is recognized by its last reading."""

import resource
from pathlib import Path

import psutil
import pytest
from helpers.recorded_runs import GIB, only_run

from keras_gpukit.records import Environment, HostSample
from keras_gpukit.sensors.host import left_bytes, read_limit


@pytest.mark.parametrize(
    ("available_bytes", "first"), [(GIB, "host-out-of-memory"), (20 * GIB, "no-gpu")]
)
def test_a_killed_run_is_judged_by_its_last_reading(tmp_path, available_bytes, first):
    lines = [(1e9, 0, "environment", Environment({"keras": "3.15.1"}))]
    for time_s, left in ((1e9 + 1, 25 * GIB), (1e9 + 2, available_bytes)):
        sample = HostSample(memory_available_bytes=left, memory_total_bytes=32 * GIB)
        lines.append((time_s, 1, "host", sample))
    run = only_run(tmp_path, lines)
    assert run.state == "unfinished"
    assert run.summary.findings[0].code == first


@pytest.mark.parametrize(
    ("files", "read"),
    [
        (
            {"memory.max": "1000", "memory.current": "900", "memory.stat": "inactive_file 300\n"},
            (1000, 600),
        ),
        ({"memory.max": "max", "memory.current": "900"}, (None, None)),
        (
            {"memory/memory.limit_in_bytes": "1000", "memory/memory.usage_in_bytes": "900"},
            (1000, 900),
        ),
        ({}, (None, None)),
    ],
)
def test_the_limit_of_a_container_is_read_without_caches(tmp_path: Path, files, read):
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    assert read_limit(tmp_path) == read


def test_what_is_left_is_the_least_of_what_limits(tmp_path):
    assert 0 < left_bytes(tmp_path) <= psutil.virtual_memory().total
    limits = resource.getrlimit(resource.RLIMIT_AS)
    used_bytes = psutil.Process().memory_info().vms
    resource.setrlimit(resource.RLIMIT_AS, (used_bytes + 2**28, limits[1]))
    try:
        assert left_bytes(tmp_path) <= 2**28
        (tmp_path / "memory.max").write_text("1000")
        (tmp_path / "memory.current").write_text("900")
        assert left_bytes(tmp_path) == 100
    finally:
        resource.setrlimit(resource.RLIMIT_AS, limits)
