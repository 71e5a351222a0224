"""The ceilings that `keras-gpukit bench` has measured on this machine, by the device's name."""

from __future__ import annotations

import os
import platform
import re
from pathlib import Path

from keras_gpukit.records.report import DeviceBenchmark
from keras_gpukit.records.run import Ceilings


def results_file(device: str) -> Path:
    """Returns the file with the results of a device, such as "bench-nvidia-a100-sxm4-40gb.json"."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    slug = re.sub(r"[^a-z0-9]+", "-", device.lower()).strip("-")
    return cache / "keras_gpukit" / f"bench-{slug}.json"


def measured_ceilings(device: str) -> Ceilings | None:
    """Returns the ceilings of a device; None if `keras-gpukit bench` has not measured them."""
    import msgspec

    try:
        content = results_file(device).read_bytes()
        return msgspec.json.decode(content, type=DeviceBenchmark).ceilings
    except (OSError, msgspec.DecodeError):
        return None


def processor_name() -> str:
    """Returns the processor's product name."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, "") or platform.processor() or platform.machine()
