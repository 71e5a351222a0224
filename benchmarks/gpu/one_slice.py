"""Measures one slice in this process, and saves what is there after each case."""

from __future__ import annotations

import faulthandler
import os
import time
from pathlib import Path

from benchmarks.gpu.part import PACKAGE, attempt, load_slice
from benchmarks.gpu.results import load, save

GROWTH = {"TF_FORCE_GPU_ALLOW_GROWTH": "true"}
"""Lets several processes share a GPU."""


def measure(name: str, folder: Path, package: str = PACKAGE) -> None:
    """Measures the cases of a slice that its saved result does not have.

    Args:
        name: The slice.
        folder: Where its result is.
        package: The package of the parts.
    """
    result = load(folder, name)
    assert result is not None
    part, one = load_slice(name, package)
    os.environ.update({} if one.alone else GROWTH)
    os.environ.update(one.environment)
    kept = folder / part.name
    kept.mkdir(exist_ok=True)
    measured, took_s, began_s = result["measured"], result.get("took_s", 0.0), time.monotonic()
    # A case that failed before comes last: it may end this process again.
    cases = sorted(one.cases(result["small"], kept), key=lambda case: case[0] in result["failed"])
    for case, function in cases:
        if case in measured:
            continue
        result["case"] = case
        save(folder, result)
        measured[case] = attempt(function)
        result["took_s"] = took_s + time.monotonic() - began_s
    if kept.exists() and not any(kept.iterdir()):  # another slice of the part may have ended
        kept.rmdir()
    result.pop("case", None)
    save(folder, result | {"status": "complete"})


def measure_and_end(name: str, folder: Path, package: str, log: str) -> None:
    """What a slice's own process does; it is the leader of those that it starts."""
    os.setsid()
    output = os.open(log, os.O_WRONLY | os.O_APPEND)
    os.dup2(output, 1)
    os.dup2(output, 2)
    faulthandler.enable()
    measure(name, folder, package)
    os._exit(0)  # at once: some pipelines would keep the interpreter from ending
