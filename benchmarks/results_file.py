"""Figures with the machine and the versions that they were measured on, as a JSON file."""

from __future__ import annotations

import json
import os
import platform
from importlib import metadata
from pathlib import Path
from typing import Any


def save(
    path: str | Path, benchmark: str, versions: dict[str, str] | None = None, **figures: Any
) -> None:
    """Writes the figures of a benchmark.

    Args:
        path: Where to.
        benchmark: Its file, `__file__`.
        versions: Of TensorFlow and Keras; those that are installed by default.
        **figures: What was measured, and how.
    """
    result = {
        "command": f"python benchmarks/{Path(benchmark).name}",
        "machine": {"cores": os.cpu_count(), "processor": platform.machine(), "gpus": 0},
        "versions": versions or {name: metadata.version(name) for name in ("tensorflow", "keras")},
        **figures,
    }
    Path(path).write_text(json.dumps(result, indent=2) + "\n")
