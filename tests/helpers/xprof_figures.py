"""What xprof, the analyzer behind TensorBoard's Profile tab, says of a profile."""

import json
import statistics
import tempfile
from pathlib import Path
from typing import Any


def ask_xprof(path: Path) -> dict[str, Any]:
    """Returns xprof's figures, of the steps and of all kernels.

    On a GPU, `input_fraction` leaves out the time that the host waits. `host_compute_s` includes
    the time between a step's operations, and so most of what is "idle" in a `ProfileRecord`.
    """
    steps = _rows(_answer(path, "input_pipeline_analyzer")[1])
    steps_ms = [step["stepTimeMs"] for step in steps]
    kernels = _answer(path, "kernel_stats")
    return {
        "steps": len(steps),
        "step_time_s": statistics.fmean(steps_ms) / 1e3 if steps else None,
        "input_fraction": (
            sum(step["infeedTimeMs"] for step in steps) / sum(steps_ms) if sum(steps_ms) else None
        ),
        "host_compute_s": (
            statistics.fmean(step["hostComputeTimeMs"] for step in steps) / 1e3 if steps else None
        ),
        "kernels": {
            row["kernel_name"]: {
                "time_s": row["total_duration_us"] / 1e6,
                "count": int(row["occurrences"]),
                "tensor_core": bool(row["is_kernel_using_tensor_core"]),
            }
            for row in _rows(kernels[0] if isinstance(kernels, list) else kernels)
        },
    }


def _answer(path: Path, tool: str) -> Any:
    """Reads the profile through a link, since xprof writes to the folder it reads from."""
    from xprof.convert import raw_to_tool_data

    with tempfile.TemporaryDirectory() as folder:
        link = Path(folder, "plugins", "profile", "run", path.name)
        link.parent.mkdir(parents=True)
        link.symlink_to(path.resolve())
        answer, _ = raw_to_tool_data.xspace_to_tool_data([str(link)], tool, {})
    return json.loads(answer)


def _rows(table: dict[str, Any]) -> list[dict[str, Any]]:
    """Returns a table's rows as dictionaries with the columns' names as keys."""
    names = [column["id"] for column in table["cols"]]
    return [
        {name: cell.get("v") for name, cell in zip(names, row["c"], strict=True)}
        for row in table["rows"]
    ]
