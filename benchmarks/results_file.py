"""Results as a JSON file, together with the machine and the versions they were measured on."""

from __future__ import annotations

import json
import os
import platform
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

import psutil

from keras_gpukit.sensors.driver import read_driver


def save(
    path: str | None, benchmark: str, versions: dict[str, str] | None = None, **figures: Any
) -> None:
    """Writes the figures of a benchmark, given as its `__file__`, if there is a path.

    `versions` are those of TensorFlow and Keras, where other ones than those installed ran.
    """
    if path is None:
        return
    result = {
        "command": f"python benchmarks/{Path(benchmark).name}",
        "machine": machine(),
        "versions": {**installed_versions(), **(versions or {})},
        **figures,
    }
    Path(path).write_text(json.dumps(result, indent=2) + "\n")


def saved_rows(path: str | Path | None, key: str = "pipelines") -> Any:
    """Returns the rows of an earlier run, to which a run with `--only` adds its own."""
    if path is None or not Path(path).exists():
        return {}
    return json.loads(Path(path).read_text())[key]


def machine() -> dict[str, Any]:
    """Describes this machine; None stands for what it does not report."""
    affinity = getattr(os, "sched_getaffinity", None)
    driver, gpus = nvidia()
    return {
        "processor": processor_model(),
        "cores": os.cpu_count(),
        "usable_cores": len(affinity(0)) if affinity else os.cpu_count(),
        "memory_bytes": psutil.virtual_memory().total,
        "system": platform.platform(),
        "gpus": gpus,
        "driver": driver,
    }


def processor_model() -> str | None:
    """Returns the CPU's name as Linux reports it, else as Python does."""
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text().splitlines():
            key, _, value = line.partition(":")
            if key.strip() == "model name":
                return value.strip()
    return platform.processor() or platform.machine() or None


def nvidia() -> tuple[str | None, list[dict[str, Any]]]:
    """Returns the driver's version and the GPUs; None and no GPU where there is no driver."""
    driver = read_driver()
    gpus = [{"name": gpu.name, "memory_bytes": gpu.memory_bytes} for gpu in driver.gpus]
    return driver.version, gpus


def installed_versions() -> dict[str, str]:
    names = ("tensorflow", "keras", "numpy")
    return {"python": ".".join(map(str, sys.version_info[:3]))} | {
        name: metadata.version(name) for name in names
    }
