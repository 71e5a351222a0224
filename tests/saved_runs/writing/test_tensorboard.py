"""The real TensorBoard shows a real run: every tag, with the values of the record."""

import json
import textwrap
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from helpers import browsing, prepared
from helpers.processes import environment, wait_for

pytestmark = pytest.mark.tensorflow

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
STEPS = {
    "step/time_ms": lambda window: window["duration_s"] / window["steps"] * 1e3,
    "step/examples_per_s": lambda window: window["examples"] / window["duration_s"],
    "step/between_ms": lambda window: window["between_s"] / window["steps"] * 1e3,
    "input/wait_ms": lambda window: window["input_wait_s"] / window["steps"] * 1e3,
    "input/stall_percent": lambda window: window["input_wait_s"] / window["duration_s"] * 1e2,
    "input/buffered_batches": lambda window: window["buffered_batches"],
}
TAGS = (
    GPU_TAGS
    | set(STEPS)
    | {
        "memory/CPU:0/current_bytes",
        "memory/CPU:0/peak_bytes",
        "host/cpu_percent",
        "host/process_cpu_percent",
        "host/memory_bytes",
        "tool/overhead_us",
    }
)
if psutil.disk_io_counters():
    TAGS.add("host/disk_read_bytes_per_s")

# Two GPUs stand in for real ones, and a CPU allocator that counts for a GPU's.
RUN = """
    import sys

    from helpers.fake_nvml import FakeGPU, FakeNVML

    gpus = [FakeGPU("GPU-a", throttle_mask=4), FakeGPU("GPU-b", utilization=40)]
    sys.modules["pynvml"] = FakeNVML(gpus)

    import keras_gpukit
    from helpers.training import fast_dataset, small_model
    from keras_gpukit.records import GPUInfo
    from keras_gpukit.sensors import host
    from keras_gpukit.monitoring import environment, sampling

    sampling.SAMPLE_EVERY_S = 0.05
    host.DISKS_EVERY_S = 0.1
    environment.visible_gpus = lambda: tuple(
        GPUInfo(index, gpu.name, gpu.uuid) for index, gpu in enumerate(gpus)
    )
    monitor = keras_gpukit.Monitor(sys.argv[1])
    small_model().fit(fast_dataset(400).prefetch(2), epochs=3, verbose=0, callbacks=[monitor])
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

    def __init__(self, address: str) -> None:
        self._url = f"{address}/data/plugin/"

    def get(self, route: str, **query: str) -> Any:
        url = f"{self._url}{route}?{urllib.parse.urlencode(query)}"
        with urllib.request.urlopen(url, timeout=60) as answer:
            return json.load(answer)

    def points(self, tag: str) -> list[tuple[int, float]]:
        """Step and value of each point."""
        found = self.get("scalars/scalars", run="gpukit", tag=tag)
        return [(step, value) for _, step, value in found]


@pytest.fixture(scope="module")
def tensorboard(logs) -> Iterator[Server]:
    with browsing.tensorboard(logs) as address:
        server = Server(address)
        # The verdict is the last thing that a run writes.
        wait_for(lambda: "findings" in server.get("text/tags").get("gpukit", ()), 120)
        yield server


NOT_COMPARED = ("throttled", "overhead_us", "read_bytes_per_s")


def known(tag, recorded) -> list[float]:
    """The values of a tag in the record."""
    kind, *device, figure = tag.split("/")
    if tag in STEPS:
        values = map(STEPS[tag], recorded["steps"])
    else:
        key = {"gpu": "index", "memory": "device"}.get(kind)
        its = [each for each in recorded[kind] if not device or str(each[key]) == device[0]]
        values = (each[figure] for each in its)
    return [value for value in values if value is not None]


def test_each_tag_has_the_values_of_the_record(tensorboard, recorded):
    assert set(tensorboard.get("scalars/tags")["gpukit"]) == TAGS
    for tag in sorted(each for each in TAGS if not each.endswith(NOT_COMPARED)):
        shown, expected = tensorboard.points(tag), known(tag, recorded)
        assert expected, tag
        assert [value for _, value in shown] == pytest.approx(expected), tag
    steps = [step for step, _ in tensorboard.points("step/time_ms")]
    assert steps == [each["step"] for each in recorded["steps"]]


def test_a_throttled_gpu_is_told_from_one_that_is_not(tensorboard):
    shown = [{value for _, value in tensorboard.points(f"gpu/{i}/throttled")} for i in (0, 1)]
    assert shown == [{1.0}, {0.0}]


def test_the_last_peak_of_memory_is_in_the_summary(tensorboard, recorded):
    (summary,) = recorded["summary"]
    (memory,) = summary["memory"]["devices"]
    peaks = [value for _, value in tensorboard.points("memory/CPU:0/peak_bytes")]
    assert 0 < peaks[-1] <= memory["peak_bytes"] * (1 + 1e-6)
    assert peaks == sorted(peaks)


def test_texts_are_shown_and_no_others(tensorboard):
    texts = {"setup": "tensorflow", "placement": "CPU:0", "findings": ""}
    assert set(tensorboard.get("text/tags")["gpukit"]) == set(texts)
    for tag, part in texts.items():
        shown = tensorboard.get("text/text", run="gpukit", tag=tag)[-1]["text"]
        assert part in shown
        assert shown.startswith("<")
