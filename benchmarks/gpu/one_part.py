"""Measures one part in this process, and saves what is there after each measurement."""

from __future__ import annotations

import json
import os
import sys
import time
import traceback
from pathlib import Path

from benchmarks.gpu.part import load_part
from benchmarks.gpu.results import Result, save


def measure_part(result: Result, folder: Path, package: str) -> None:
    """Measures a part.

    Args:
        result: The result so far, without a measurement.
        folder: Where the result is saved.
        package: The package of the parts.
    """
    kept = folder / result["part"]
    kept.mkdir(exist_ok=True)
    measured = result["measured"]
    start_s = time.monotonic()
    try:
        for name, value in load_part(result["part"], package).measure(result["small"], kept):
            measured[name] = value
            save(folder, result | {"took_s": time.monotonic() - start_s})
        result["status"] = "complete"
    except Exception:
        result |= {"status": "failed", "traceback": traceback.format_exc()}
    finally:
        if not any(kept.iterdir()):
            kept.rmdir()
    save(folder, result | {"took_s": time.monotonic() - start_s})


def main() -> None:
    """Measures, and ends at once: some pipelines would keep the interpreter from ending."""
    result, folder, package = sys.argv[1:]
    measure_part(json.loads(result), Path(folder), package)
    os._exit(0)


if __name__ == "__main__":
    main()
