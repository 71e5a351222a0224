"""Names of a run's files and TensorBoard tags. Only this module spells them out.

The last part of a tag is its unit. The x axis of every tag is the global step.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Literal

from keras_gpukit.records.environment import Worker

SCHEMA = 1
"""Version of the records' layout. It increases when a field changes its meaning or is removed."""
FOLDER = "gpukit"
"""Folder in the log directory that everything measured is written to."""
RUN_FILE = "run.jsonl"
"""Name of the file with one process's record of a run. See `record_name` for those of others."""
RUN_FILE_OF_ANY = re.compile(r"run(?:-(?P<worker>\d+|evaluator))?(?:\.(?P<process>\d+))?\.jsonl")
SCRIPT_FILE = "script.json"
"""Name of the file in `FOLDER` that says where the time of a whole script went."""
REQUEST_FILE = "capture"
"""Name of the file in `FOLDER` that requests a capture by being there."""
PROFILES = Path(FOLDER, "plugins", "profile")
"""Folder of profiles in the log directory. TensorBoard's Profile tab looks for "plugins/profile"
below any folder."""
PROFILE_SUFFIX = ".xplane.pb"

RecordKind = Literal[
    "run",
    "environment",
    "placement",
    "flops",
    "steps",
    "host",
    "gpu",
    "memory",
    "memory_by_cause",
    "epoch",
    "capture",
    "event",
    "hang",
    "progress",
    "input",
    "host_buffers",
    "learning",
    "stacks",
    "out_of_memory",
    "throughput",
    "utilization",
    "profiler",
    "profile",
    "overhead",
    "workers",
    "end",
    "summary",
]
"""Kind of record on a line of a run's file. The type checker rejects any other kind where lines are
written and read."""

STEP_TIME = "step/time_ms"
BETWEEN_STEPS = "step/between_ms"
EXAMPLE_RATE = "step/examples_per_s"
INPUT_WAIT = "input/wait_ms"
INPUT_STALL = "input/stall_percent"
BUFFERED_BATCHES = "input/buffered_batches"
HOST_CPU = "host/cpu_percent"
HOST_PROCESS_CPU = "host/process_cpu_percent"
HOST_MEMORY = "host/memory_bytes"
HOST_DISK_READS = "host/disk_read_bytes_per_s"
OVERHEAD = "tool/overhead_us"
"""Sorted last, since TensorBoard shows tags by name: what the tool costs is no figure of a run."""
SETUP = "setup"
PLACEMENT = "placement"
FINDINGS = "findings"
GPU_FIGURES = (
    "utilization_percent",
    "memory_used_bytes",
    "power_watts",
    "temperature_celsius",
    "sm_clock_mhz",
    "sm_active_percent",
    "tensor_active_percent",
    "memory_bandwidth_percent",
)
"""Fields of a `GPUSample` that have a TensorBoard tag. In addition, "throttled" has one."""
MEMORY_FIGURES = ("current_bytes", "peak_bytes")
"""Fields of a `DeviceMemory` that have a TensorBoard tag."""
_UNITS = {
    "ms": "ms",
    "us": "µs",
    "percent": "%",
    "bytes": "B",
    "per_s": "/s",
    "watts": "W",
    "celsius": "°C",
    "mhz": "MHz",
}


def record_name(worker: Worker | None, process: int = 1) -> str:
    """Returns the name of a process's record, without its suffix.

    Args:
        worker: Place of the process in its cluster; None outside one. Each of several workers has a
            record of its own: "run-0", "run-1", ..., and "run-evaluator".
        process: Number of the process among those that share a log directory without being workers
            of a cluster, from 1. The second one writes "run.2".
    """
    name = "run"
    if worker is not None and worker.index is not None and worker.count != 1:
        name += f"-{worker.index}"
    elif worker is not None and worker.task_type == "evaluator":
        name += "-evaluator"
    return name if process == 1 else f"{name}.{process}"


def is_first(name: str) -> bool:
    """Whether a record belongs to a run's only process or to its first worker."""
    return name in ("run", "run-0")


def gpu_tag(index: int | str, figure: str) -> str:
    """Returns the tag of a GPU's figure, such as "gpu/0/power_watts"."""
    return f"gpu/{index}/{figure}"


def memory_tag(device: str, figure: str) -> str:
    """Returns the tag of an allocator's figure, such as "memory/GPU:0/peak_bytes"."""
    return f"memory/{device}/{figure}"


def unit_of(tag: str) -> str:
    """Returns the unit of a tag's figure, such as "ms"; "" if it has none."""
    return next((unit for name, unit in _UNITS.items() if tag.endswith(f"_{name}")), "")
