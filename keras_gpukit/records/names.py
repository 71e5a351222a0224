"""The names of a run's files and of its TensorBoard tags; other modules spell none of them.

The unit is the last part of a tag. The x axis of every tag is the global step.
"""

from __future__ import annotations

from pathlib import Path

FOLDER = "gpukit"
"""In the log directory; everything measured is written to it."""
RUN_FILE = "run.jsonl"
REQUEST_FILE = "capture"
"""In `FOLDER`; asks for a capture."""
PROFILES = Path(FOLDER, "plugins", "profile")
"""In the log directory: where TensorBoard's Profile tab looks, below any folder."""
PROFILE_SUFFIX = ".xplane.pb"

STEP_TIME = "step/time_ms"
EXAMPLE_RATE = "step/examples_per_s"
INPUT_WAIT = "input/wait_ms"
INPUT_STALL = "input/stall_percent"
BUFFERED_BATCHES = "input/buffered_batches"
HOST_CPU = "host/cpu_percent"
HOST_MEMORY = "host/memory_bytes"
HOST_DISK_READS = "host/disk_read_bytes_per_s"
OVERHEAD = "gpukit/overhead_us"
SETUP = "setup"
PLACEMENT = "placement"
FINDINGS = "findings"
GPU_FIGURES = ("utilization_percent", "memory_used_bytes", "power_watts", "temperature_celsius")
"""Fields of a `GPUSample` that have a tag; "throttled" has one too."""
MEMORY_FIGURES = ("current_bytes", "peak_bytes")
"""Fields of a `DeviceMemory` that have a tag."""


def gpu_tag(index: int | str, figure: str) -> str:
    """Returns the tag of a GPU's figure, such as "gpu/0/power_watts"."""
    return f"gpu/{index}/{figure}"


def memory_tag(device: str, figure: str) -> str:
    """Returns the tag of an allocator's figure, such as "memory/GPU:0/peak_bytes"."""
    return f"memory/{device}/{figure}"
