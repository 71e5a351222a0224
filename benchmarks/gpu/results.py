"""A part's result as a JSON file: what was measured, on what, when, and what it says."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.gpu.own_process import ROOT
from benchmarks.gpu.part import Outcome, Part
from benchmarks.results_file import installed_versions, machine
from keras_gpukit.writers.whole_files import replace_file

FOLDER = ROOT / "benchmarks" / "results" / "gpu"

NOT_RUN = (
    "it has not run on a GPU",
    "it ran on a CPU, which proves nothing about a GPU",
    "it ran in small, which is too short to judge",
)
"""Why a part's claims are not judged at all."""

Result = dict[str, Any]
"""`part`, `status` ("complete", "killed", "failed", or "running" if the machine was cut off),
`date`, `took_s`, `small`, `device`, `code`, `measured`, `outcomes` and, if it failed,
`traceback`."""


def describe_device() -> dict[str, Any]:
    """Describes the machine, and whether TensorFlow uses a GPU on it ("kind": "gpu" or "cpu").

    Loads TensorFlow. Nothing in it differs between two machines of the same kind, so that a run can
    be resumed on another one.
    """
    import tensorflow as tf

    build = tf.sysconfig.get_build_info()
    return {
        "kind": "gpu" if tf.config.list_physical_devices("GPU") else "cpu",
        "cuda": build.get("cuda_version"),
        "cudnn": build.get("cudnn_version"),
        **machine(),
        "versions": installed_versions(),
    }


def code_version() -> str:
    """Returns a hash of the code that measures and of the code that is measured."""
    digest = hashlib.sha256()
    for folder in ("keras_gpukit", "benchmarks"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


def path_of(folder: Path, part: str) -> Path:
    return folder / f"{part}.json"


def load(folder: Path, part: str) -> Result | None:
    """Returns a part's result; None without one."""
    path = path_of(folder, part)
    return json.loads(path.read_text()) if path.exists() else None


def save(folder: Path, result: Result) -> None:
    """Writes a result whole or not at all: the machine may be taken away at any time."""
    text = json.dumps(result, indent=2) + "\n"
    replace_file(path_of(folder, result["part"]), text.encode())


def outcomes(part: Part, result: Result | None) -> dict[str, Outcome]:
    """Judges a result with the judge of today."""
    absent, on_cpu, in_small = NOT_RUN
    if result is None:
        return part.unjudged(absent)
    if result["device"]["kind"] != "gpu":
        return part.unjudged(on_cpu)
    if result["small"]:
        return part.unjudged(in_small)
    return part.unjudged("it was not measured") | part.judge(result["measured"])


def with_outcomes(part: Part, result: Result) -> Result:
    """Adds the outcomes to a result, for those who read the file."""
    return result | {
        "outcomes": {name: asdict(outcome) for name, outcome in outcomes(part, result).items()}
    }
