"""Records of runs as `Monitor` writes them, made up: on two GPUs that are not here."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from keras_gpukit.records import (
    CopiedTensor,
    DeviceCopies,
    DeviceMemory,
    Environment,
    Fallback,
    GPUInfo,
    GPUSample,
    GPUUtilization,
    HostSample,
    HostUtilization,
    InputRecord,
    MemoryRecord,
    PipelineRecord,
    PlacedOperations,
    PlacementRecord,
    RunEvent,
    RunSummary,
    StageRecord,
    StepWindow,
    ThroughputRecord,
    TimeBreakdown,
    UtilizationRecord,
    WaitDistribution,
)
from keras_gpukit.rules import judge
from keras_gpukit.saved_runs.log_folder import load_report
from keras_gpukit.saved_runs.writing.run_log import JsonLines

GIB = 2**30
BEGAN_S = 1.7e9
STEPS = 40
"""Of each window, which takes a second; steps of 25 ms wait 10 ms."""
ENVIRONMENT = Environment(
    {"python": "3.11.7", "keras": "3.15.1", "tensorflow": "2.21.0"},
    gpus=tuple(GPUInfo(index, "NVIDIA H100", memory_bytes=80 * GIB) for index in range(2)),
    cuda_build=True,
    cpu_count=16,
    precision="float32",
    jit_compile=False,
    run_eagerly=False,
    steps_per_execution=1,
    tf32=True,
)
PLACEMENT = PlacementRecord(
    {"GPU:0": {"MatMul": 190, "Relu": 20}, "CPU:0": {"AsString": 2}},
    (Fallback("AsString", 2, "no kernel", "TensorFlow has none.", ("model/log",)),),
    transfers=4,
    rows=(
        PlacedOperations(
            *("AsString", "model/log", "CPU:0", 2, None, False, "no kernel"), "TensorFlow has none."
        ),
        PlacedOperations("MatMul", "model/dense", "GPU:0", 190),
        PlacedOperations("Relu", "model/dense", "GPU:0", 20),
    ),
    rows_left_out=80,
    operations_left_out=900,
    copies=(
        DeviceCopies(
            *("GPU:0", "CPU:0", 2, 7 << 19),
            largest=(CopiedTensor("model/log/Cast", "model/log", "float32", (64, 14336), 7 << 19),),
        ),
    ),
)
DECODE = StageRecord("decode", "map", "decoding", "train.py:12", 0.001, 0.016, 2, 0.1, 0.97)
READ = StageRecord("files", "interleave", "reading", "train.py:9", 1e-4, 0.002, 4, 1.5)
SUMMARY = RunSummary(
    ENVIRONMENT,
    throughput=ThroughputRecord("fit", 2400, 2398, 0.025, 1280.0, 64.0),
    input=InputRecord(
        "fit",
        "pipeline model",
        "exact",
        2398,
        0.01,
        0.4,
        0.1,
        distribution=WaitDistribution(0.009, 0.02, 0.3, 0.9),
        breakdown=TimeBreakdown(64.0, 24.0, 36.0, 1.0, 1.0, 1.5, 0.0, 0.5),
        pipeline=PipelineRecord((DECODE, READ), DECODE),
    ),
    memory=MemoryRecord((DeviceMemory("GPU:0", 3 * GIB, 5 * GIB, 70 * GIB),)),
    operations=PLACEMENT,
    utilization=UtilizationRecord(
        60, (GPUUtilization(0, 55.0), GPUUtilization(1, 50.0)), HostUtilization(30.0, 20.0)
    ),
    overhead_s=4e-6,
    startup_s=0.1,
    ending="completed",
)
SUMMARY = replace(SUMMARY, verdict=judge(SUMMARY))
Line = tuple[float, int | None, str, Any]


def window(number: int, *, slow: float = 1.0, phase: str = "fit") -> StepWindow:
    """The window that ends so many seconds after the run began."""
    return StepWindow(
        phase,
        BEGAN_S + number,
        number * STEPS,
        STEPS,
        slow,
        0.4 * slow,
        examples=32 * STEPS,
        buffered_batches=number % 2,
    )


def readings(number: int) -> Iterator[tuple[str, Any]]:
    yield "host", HostSample(30.0 + number % 3, 20.0, GIB, 100 * GIB, 128 * GIB, 1e6)
    for index in range(2):
        yield (
            "gpu",
            GPUSample(index, 50.0 + number % 11, 20 * GIB, None, None, 80 * GIB, 400.0, 61.0),
        )
    yield "memory", DeviceMemory("GPU:0", 3 * GIB, (4 + (number > 5)) * GIB, 70 * GIB)


def run_lines(
    windows: int = 60, *, summary: RunSummary | None = SUMMARY, began_s: float = BEGAN_S
) -> list[Line]:
    """What a run writes, a line a record; the seventh window is five times as slow."""
    later_s = began_s - BEGAN_S
    lines: list[Line] = [(began_s, None, "run", {"schema": 1, "time_s": began_s})]
    lines.append((began_s, 0, "environment", ENVIRONMENT))
    lines.append((began_s + 0.5, 0, "placement", PLACEMENT))
    for number in range(1, windows + 1):
        record = window(number, slow=5.0 if number == 7 else 1.0)
        step, time_s = record.step, record.time_s + later_s
        lines.append((time_s, step, "steps", replace(record, time_s=time_s)))
        lines += [(time_s, step, kind, reading) for kind, reading in readings(number)]
    if summary is not None:
        lines.append((began_s + windows + 1, windows * STEPS, "summary", summary))
    return lines


def with_validation(lines: list[Line], after: int = 30, lasts_s: float = 20.0) -> list[Line]:
    """The same run in two epochs, with a validation of two windows and a save between them."""
    at_s = BEGAN_S + after
    place = next(place for place, line in enumerate(lines) if line[0] > at_s)
    shifted = [
        (line[0] + lasts_s, line[1], line[2], _later(line[3], lasts_s)) for line in lines[place:]
    ]
    between: list[Line] = [
        (
            at_s + 8 + number,
            after * STEPS,
            "steps",
            replace(window(after + 8 + number, phase="evaluate"), step=number * STEPS),
        )
        for number in (1, 2)
    ]
    ended_s = shifted[-1][0]
    events = (
        RunEvent("first step", BEGAN_S, 0.6, 0),
        RunEvent("validation", at_s + 8, 4.0, after * STEPS),
        RunEvent("checkpoint", at_s + 14, 2.0, after * STEPS),
        RunEvent("epoch", BEGAN_S, after + 16.0, after * STEPS, 1),
        RunEvent("epoch", at_s + 16, ended_s - at_s - 16, None, 2),
    )
    noted: list[Line] = [(ended_s, event.step, "event", event) for event in events]
    return [*lines[:place], *between, *shifted[:-1], *noted, shifted[-1]]


def _later(record: Any, seconds: float) -> Any:
    is_window = isinstance(record, StepWindow)
    return replace(record, time_s=record.time_s + seconds) if is_window else record


def write_lines(log_dir: Path, lines: list[Line], name: str = "run") -> Path:
    """Appends to the record in a log folder."""
    path = log_dir / "gpukit" / f"{name}.jsonl"
    file = JsonLines(path)
    file.write_records(lines)
    file.close()
    return path


def without_lines(log_dir: Path, *kinds: str) -> None:
    """Takes the records of some kinds out of a run's file, as if its process had been killed."""
    path = log_dir / "gpukit" / "run.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(each for each in lines if json.loads(each)["kind"] not in kinds))


def only_run(log_dir: Path, lines: list[Line] | None = None) -> Any:
    """The run of a log folder, read back; writes it first if it is given."""
    if lines is not None:
        write_lines(log_dir, lines)
    (run,) = load_report(log_dir).runs
    return run
