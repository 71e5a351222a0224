"""Asks xprof, the analyzer behind TensorBoard's Profile tab, for its figures on a profile."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from keras_gpukit.errors import ProfileError
from keras_gpukit.profiling.own_process import output_of
from keras_gpukit.records.xprof import XprofKernel, XprofRecord

_TOOLS = ("input_pipeline_analyzer", "overview_page", "kernel_stats", "memory_profile")
_MODULE = "keras_gpukit.profiling.xprof_process"


def ask_xprof(path: str | os.PathLike[str], *, timeout_s: float = 120.0) -> XprofRecord:
    """Returns xprof's figures for a profile.

    They come from xprof's public `xprof.convert.raw_to_tool_data`. It runs in a separate process
    with limits on time and memory, since its native code may crash on a damaged file. That process
    reads the profile through a link in a temporary folder, since xprof writes to the folder it
    reads from.

    Raises:
        ProfileError: If the file does not exist, or xprof cannot read it.
    """
    path = Path(path)
    received = f"Received: path={str(path)!r}"
    if not path.is_file():
        raise ProfileError(f"There is no such file. {received}")
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder, "plugins", "profile", "run")
        run.mkdir(parents=True)
        link = run / path.name
        link.symlink_to(path.resolve())
        try:
            return _record(json.loads(output_of(_MODULE, str(link), *_TOOLS, timeout_s=timeout_s)))
        except subprocess.TimeoutExpired:
            raise ProfileError(f"xprof did not read it in {timeout_s:g} s. {received}") from None
        except ProfileError as error:
            raise ProfileError(f"xprof cannot read it: {error}. {received}") from None
        except (ValueError, KeyError, IndexError, TypeError) as error:
            raise ProfileError(
                f"xprof cannot read it, or is not as version 2.24 was ({error!r}). {received}"
            ) from error


def _record(answers: dict[str, Any]) -> XprofRecord:
    if not all(answers.values()):
        raise ValueError("it has none")
    steps = _rows(answers["input_pipeline_analyzer"][1])
    step_time_ms = [step["stepTimeMs"] for step in steps]
    input_ms = [step["infeedTimeMs"] for step in steps]
    host_ms = [step["hostComputeTimeMs"] for step in steps]
    overview = {
        key: value
        for table in answers["overview_page"]
        for key, value in table.get("p", {}).items()
    }
    kernels, memory = answers["kernel_stats"], answers["memory_profile"]
    return XprofRecord(
        steps=len(steps),
        step_time_s=statistics.fmean(step_time_ms) / 1e3 if steps else None,
        input_fraction=sum(input_ms) / sum(step_time_ms) if sum(step_time_ms) else None,
        host_compute_s=statistics.fmean(host_ms) / 1e3 if steps else None,
        bottleneck=overview.get("bottleneck"),
        statement=overview.get("statement"),
        kernels=tuple(
            XprofKernel(
                name=row["kernel_name"],
                time_s=row["total_duration_us"] / 1e6,
                count=int(row["occurrences"]),
                tensor_core=bool(row["is_kernel_using_tensor_core"]),
            )
            for row in _rows(kernels[0] if isinstance(kernels, list) else kernels)
        ),
        memory_peaks_bytes={
            name: int(of_allocator["profileSummary"]["peakStats"]["peakBytesInUse"])
            for name, of_allocator in memory["memoryProfilePerAllocator"].items()
        },
    )


def _rows(table: dict[str, Any]) -> list[dict[str, Any]]:
    """Returns a table's rows as dictionaries with the columns' names as keys."""
    names = [column["id"] for column in table["cols"]]
    return [
        {name: cell.get("v") for name, cell in zip(names, row["c"], strict=True)}
        for row in table["rows"]
    ]
