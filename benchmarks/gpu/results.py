"""A slice's result as a JSON file: what was measured, on what, when; and what a part's say."""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import re
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.gpu.part import Outcome, Part
from benchmarks.results_file import installed_versions, machine
from keras_gpukit.whole_files import replace_file

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "benchmarks" / "results" / "gpu"

NOT_RUN = (
    "it has not run on a GPU",
    "it ran on a CPU, which proves nothing about a GPU",
    "it ran in small, which is too short to judge",
)
"""Why a part's claims are not judged at all."""

Result = dict[str, Any]
"""`part`, `slice`, `status` ("complete", "killed", "failed", or "running" if the machine was cut
off), `date`, `took_s`, `small`, `device`, `code`, `measured`, `case` (the one being measured) and,
unless it is complete, `why`."""


def describe_device(method: str) -> Result | None:
    """Describes the machine, as a process that starts so sees it; None if that process fails."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "device.json")
        process = multiprocessing.get_context(method).Process(target=write_device, args=(path,))  # type: ignore[attr-defined]
        process.start()
        process.join(60)
        process.kill()
        return json.loads(path.read_text()) if path.exists() else None


def write_device(path: Path) -> None:
    """Writes what the machine is, and whether TensorFlow uses a GPU on it ("gpu" or "cpu").

    Nothing in it differs between two machines of the same kind, so that a run can be resumed on
    another one.
    """
    import tensorflow as tf

    build = tf.sysconfig.get_build_info()
    device = {
        "kind": "gpu" if tf.config.list_logical_devices("GPU") else "cpu",
        "cuda": build.get("cuda_version"),
        "cudnn": build.get("cudnn_version"),
        **machine(),
        "versions": installed_versions(),
    }
    path.write_text(json.dumps(device))


def code_version() -> str:
    """Returns a hash of the code that measures and of the code that is measured."""
    digest = hashlib.sha256()
    for folder in ("keras_gpukit", "benchmarks"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


def load(folder: Path, name: str) -> Result | None:
    """Returns a slice's result; None without one."""
    path = folder / f"{name.replace(':', '.')}.json"
    return json.loads(path.read_text()) if path.exists() else None


def save(folder: Path, result: Result) -> None:
    """Writes a result whole or not at all: the machine may be taken away at any time."""
    text = json.dumps(result, indent=2) + "\n"
    text = re.sub(r'\[[^][{}"]*\]', lambda numbers: " ".join(numbers[0].split()), text)
    replace_file(folder / f"{result['part']}.{result['slice']}.json", text.encode())


def load_all(folder: Path, part: str) -> list[Result]:
    """Returns the results of a part's slices, also of those that are no longer kept."""
    return [json.loads(path.read_text()) for path in sorted(folder.glob(f"{part}.*.json"))]


def counts(result: Result) -> bool:
    """Whether a result is evidence: of a GPU, and in full size."""
    return bool(result["device"]["kind"] == "gpu" and not result["small"])


def outcomes(part: Part, results: list[Result]) -> dict[str, Outcome]:
    """Judges a part's results with the judge of today."""
    absent, on_cpu, in_small = NOT_RUN
    counted = [result for result in results if counts(result)]
    if not counted:
        on_gpu = any(result["device"]["kind"] == "gpu" for result in results)
        reason = absent if not results else in_small if on_gpu else on_cpu
        return {claim.name: Outcome(None, reason) for claim in part.claims}
    judged = part.judge(
        {name: value for result in counted for name, value in result["measured"].items()}
    )
    ran = {f"{result['slice']}:{result['code']}" for result in counted}
    for claim in part.claims:
        code, change = claim.corrected
        if judged[claim.name].holds is False and code in ran:
            judged[claim.name] = replace(judged[claim.name], corrected=change)
    return judged
