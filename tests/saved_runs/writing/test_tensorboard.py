"""The real TensorBoard shows a real run: every tag, with the values of the record."""

from __future__ import annotations

import json
import re
import socket
import subprocess
import sys
import textwrap
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from helpers import prepared
from helpers.processes import environment

from keras_gpukit.saved_runs.writing.event_file import LAYOUT

pytestmark = pytest.mark.tensorflow

DEADLINE_S = 120
GPU_TAGS = {
    f"gpu/{index}/{name}"
    for index in (0, 1)
    for name in (
        "utilization_percent",
        "memory_used_bytes",
        "power_watts",
        "temperature_celsius",
        "sm_clock_mhz",
        "throttled",
    )
}
TAGS = GPU_TAGS | {
    "step/time_ms",
    "step/examples_per_s",
    "step/between_ms",
    "input/wait_ms",
    "input/stall_percent",
    "input/buffered_batches",
    "memory/CPU:0/current_bytes",
    "memory/CPU:0/peak_bytes",
    "host/cpu_percent",
    "host/process_cpu_percent",
    "host/memory_bytes",
    "gpukit/overhead_us",
}
if psutil.disk_io_counters():
    TAGS.add("host/disk_read_bytes_per_s")

# Two GPUs stand in for real ones, and a CPU allocator that counts for a GPU's.
RUN = """
    import sys

    from helpers.fake_nvml import FakeGPU, FakeNVML

    gpus = [FakeGPU("GPU-a", throttle_mask=4), FakeGPU("GPU-b", utilization=40)]
    sys.modules["pynvml"] = FakeNVML(gpus)

    import keras
    import numpy as np
    import tensorflow as tf

    import keras_gpukit
    from keras_gpukit.records.environment import GPUInfo
    from keras_gpukit.sensors import host
    from keras_gpukit.watching import environment, session

    session.SAMPLE_EVERY_S = 0.05
    host.DISKS_EVERY_S = 0.1
    environment.visible_gpus = lambda: tuple(
        GPUInfo(index, gpu.name, gpu.uuid) for index, gpu in enumerate(gpus)
    )
    data = (np.zeros((6400, 8), "float32"), np.zeros((6400, 1), "float32"))
    dataset = tf.data.Dataset.from_tensor_slices(data).batch(32).prefetch(2)
    model = keras.Sequential([keras.layers.Dense(64), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    model.fit(dataset, epochs=3, verbose=0, callbacks=[keras_gpukit.Monitor(sys.argv[1])])
"""


@pytest.fixture(scope="module")
def logs(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("logs")
    script = tmp_path_factory.mktemp("script") / "run.py"
    script.write_text(textwrap.dedent(RUN))
    prepared.run(script, folder, env=environment(TF_CPU_ALLOCATOR_USE_BFC="true"))
    return folder


@pytest.fixture(scope="module")
def recorded(logs) -> dict[str, list[dict[str, Any]]]:
    """The run's records, by kind."""
    records: dict[str, list[dict[str, Any]]] = {}
    for line in (logs / "gpukit" / "run.jsonl").read_text().splitlines():
        found = json.loads(line)
        records.setdefault(found["kind"], []).append(found["record"])
    return records


class Server:
    """TensorBoard's HTTP interface."""

    def __init__(self, port: int) -> None:
        self._url = f"http://127.0.0.1:{port}/data/plugin/"

    def get(self, route: str, **query: str) -> Any:
        url = f"{self._url}{route}?{urllib.parse.urlencode(query)}"
        with urllib.request.urlopen(url, timeout=DEADLINE_S) as answer:
            return json.load(answer)

    def points(self, tag: str) -> list[tuple[int, float]]:
        """Step and value of each point."""
        points = self.get("scalars/scalars", run="gpukit", tag=tag)
        return [(step, value) for _, step, value in points]


@pytest.fixture(scope="module")
def tensorboard(logs) -> Iterator[Server]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    options = ["--logdir", str(logs), "--host", "127.0.0.1", "--port", str(port)]
    process = subprocess.Popen(
        [sys.executable, "-m", "tensorboard.main", "--load_fast=false", *options],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        server = Server(port)
        wait_until_loaded(server, process)
        yield server
    finally:
        process.kill()
        process.wait()


def wait_until_loaded(server: Server, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while time.monotonic() < deadline:
        assert process.poll() is None, "TensorBoard ended"
        try:
            # The verdict is the last thing that a run writes.
            if "findings" in server.get("text/tags").get("gpukit", ()):
                return
        except (urllib.error.URLError, ConnectionError):
            pass  # not listening yet
        time.sleep(0.2)
    raise TimeoutError("TensorBoard did not load the run")


def test_every_tag_is_listed(tensorboard):
    assert set(tensorboard.get("scalars/tags")["gpukit"]) == TAGS


@pytest.mark.parametrize(
    ("tag", "value_of"),
    [
        ("step/time_ms", lambda window: window["duration_s"] / window["steps"] * 1e3),
        ("step/examples_per_s", lambda window: window["examples"] / window["duration_s"]),
        ("step/between_ms", lambda window: window["between_s"] / window["steps"] * 1e3),
        ("input/wait_ms", lambda window: window["input_wait_s"] / window["steps"] * 1e3),
        (
            "input/stall_percent",
            lambda window: window["input_wait_s"] / window["duration_s"] * 1e2,
        ),
        ("input/buffered_batches", lambda window: window["buffered_batches"]),
    ],
)
def test_steps_have_the_values_of_the_record(tensorboard, recorded, tag, value_of):
    found = [
        (window["step"], value)
        for window in recorded["steps"]
        if (value := value_of(window)) is not None
    ]
    assert found
    shown = tensorboard.points(tag)
    assert [step for step, _ in shown] == [step for step, _ in found]
    assert [value for _, value in shown] == pytest.approx([value for _, value in found])


@pytest.mark.parametrize("index", [0, 1])
@pytest.mark.parametrize(
    "name",
    [
        "utilization_percent",
        "memory_used_bytes",
        "power_watts",
        "temperature_celsius",
        "sm_clock_mhz",
    ],
)
def test_gpus_have_the_values_of_the_record(tensorboard, recorded, index, name):
    found = [sample[name] for sample in recorded["gpu"] if sample["index"] == index]
    shown = [value for _, value in tensorboard.points(f"gpu/{index}/{name}")]
    assert found
    assert shown == pytest.approx(found)


def test_a_throttled_gpu_is_told_from_one_that_is_not(tensorboard):
    shown = [{value for _, value in tensorboard.points(f"gpu/{i}/throttled")} for i in (0, 1)]
    assert shown == [{1.0}, {0.0}]


@pytest.mark.parametrize("name", ["cpu_percent", "process_cpu_percent", "memory_bytes"])
def test_the_host_has_the_values_of_the_record(tensorboard, recorded, name):
    found = [sample[name] for sample in recorded["host"] if sample[name] is not None]
    assert [value for _, value in tensorboard.points(f"host/{name}")] == pytest.approx(found)


@pytest.mark.parametrize("name", ["current_bytes", "peak_bytes"])
def test_memory_has_the_values_of_the_record(tensorboard, recorded, name):
    found = [reading[name] for reading in recorded["memory"] if reading["device"] == "CPU:0"]
    assert found
    shown = [value for _, value in tensorboard.points(f"memory/CPU:0/{name}")]
    assert shown == pytest.approx(found)


def test_the_last_peak_of_memory_is_in_the_summary(tensorboard, recorded):
    (summary,) = recorded["summary"]
    (memory,) = summary["memory"]["devices"]
    peaks = [value for _, value in tensorboard.points("memory/CPU:0/peak_bytes")]
    assert 0 < peaks[-1] <= memory["peak_bytes"] * (1 + 1e-6)
    assert peaks == sorted(peaks)


@pytest.mark.parametrize(
    ("tag", "part"), [("setup", "tensorflow"), ("placement", "CPU:0"), ("findings", "")]
)
def test_texts_are_shown(tensorboard, tag, part):
    shown = tensorboard.get("text/text", run="gpukit", tag=tag)
    assert shown
    assert part in shown[-1]["text"]
    assert shown[-1]["text"].startswith("<")


def test_no_text_beyond_those(tensorboard):
    assert set(tensorboard.get("text/tags")["gpukit"]) == {"setup", "placement", "findings"}


def test_the_layout_groups_every_tag(tensorboard):
    layout = tensorboard.get("custom_scalars/layout")
    assert [category["title"] for category in layout["category"]] == list(LAYOUT)
    patterns = [
        pattern
        for category in layout["category"]
        for chart in category["chart"]
        for pattern in chart["multiline"]["tag"]
    ]
    for tag in TAGS:
        assert any(re.match(pattern, tag) for pattern in patterns), tag
    for pattern in patterns:
        # What each chart asks for, as the tab does.
        shown = tensorboard.get("custom_scalars/scalars", run="gpukit", tag=pattern)
        expected = {tag for tag in TAGS if re.match(pattern, tag)}
        assert set(shown["tag_to_events"]) == expected
