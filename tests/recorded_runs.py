"""Log folders as a watched run leaves them, made without training."""

from __future__ import annotations

import time
from pathlib import Path

from keras_gpukit.records.codec import SCHEMA
from keras_gpukit.records.environment import Environment
from keras_gpukit.records.steps import StepWindow
from keras_gpukit.writers.json_lines import JsonLines

WINDOW_STEPS = 100


def window(number: int, began_s: float, wait_s: float = 0.004) -> StepWindow:
    """A second of steps of ten milliseconds each, of which some waited."""
    return StepWindow(
        "fit",
        time_s=began_s + number,
        step=number * WINDOW_STEPS,
        steps=WINDOW_STEPS,
        duration_s=1.0,
        input_wait_s=wait_s * WINDOW_STEPS,
        examples=32 * WINDOW_STEPS,
        buffered_batches=0.5,
    )


def write_run(log_dir: Path, windows: int = 20) -> Path:
    """Writes a run that goes on, and returns its record."""
    record = log_dir / "gpukit" / "run.jsonl"
    began_s = time.time() - windows
    write_lines(
        record,
        (began_s, None, "run", {"schema": SCHEMA, "time_s": began_s}),
        (began_s, 0, "environment", Environment({"keras": "3.15.1"}, cpu_count=2)),
        *(
            (one.time_s, one.step, "steps", one)
            for one in (window(number, began_s) for number in range(1, windows + 1))
        ),
    )
    return record


def write_lines(record: Path, *lines) -> None:
    """Adds lines to a record."""
    file = JsonLines(record)
    file.write(lines)
    file.close()
