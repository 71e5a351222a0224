"""The stall read from a capture, beside the always-on one and xprof's, of the very same steps.

    python benchmarks/profile_stall.py --json benchmarks/results/profile_stall.json

Real fits, of pipelines and steps that take known times (`stall_pipelines.py` and
`stall_combinations.py`). Each is watched by `InputStall` and captured whole by `Profiler`; the
capture is then read by `keras_gpukit.profiling` and by xprof.

A combination's name is pipeline/mode/steps per execution/devices/stall aimed at in percent.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path

from results_file import save
from rich.console import Console
from rich.progress import track
from rich.table import Table

NAMES = """
serial/graph/spe1/one/0 serial/graph/spe1/one/50 serial/graph/spe1/one/90
prefetched/graph/spe1/one/50 bursty/graph/spe1/one/50 cached/graph/spe1/one/0
parallel/graph/spe1/one/50 interleaved/graph/spe1/one/25 arrays/graph/spe1/one/0
generator/graph/spe1/one/50 pydataset/graph/spe1/one/50
serial/jit/spe1/one/50 serial/eager/spe1/one/50 serial/graph/spe1/two/50
serial/graph/spe8/one/0 serial/graph/spe8/one/50 prefetched/graph/spe8/one/75
"""
STEPS = 48
LIMIT_S = 280


def measure(names: list[str]) -> None:
    """Measures combinations of one way of running, and prints a line of JSON for each."""
    from stall_combinations import Way
    from stall_pipelines import PIPELINES

    import keras_gpukit as gpukit
    from keras_gpukit.profiling import ask_xprof, find_profiles, read_profile

    _, mode, execution, devices, _ = names[0].split("/")
    way = Way(mode, int(execution.removeprefix("spe")), devices)
    for name in names:
        pipeline, *_, percent = name.split("/")
        made = PIPELINES[pipeline]
        way.fit(made.make(2 * way.an_execution, 0.0))  # traces
        batch_s = way.batch_s(int(percent))
        with tempfile.TemporaryDirectory() as folder:
            stall = gpukit.InputStall(folder)
            profiler = gpukit.Profiler(folder, steps=STEPS, at_steps=(1,))
            way.fit(made.make(STEPS, batch_s), stall, profiler)
            [path] = find_profiles(folder)
            read, asked = read_profile(path), ask_xprof(path)
        row = {
            "name": name,
            "always_on": stall.summary.stall_fraction,
            "confidence": stall.summary.confidence,
            "capture": read.stall_fraction,
            "xprof": asked.input_fraction,
            "bottleneck": asked.bottleneck,
            "steps": read.steps,
            "step_ms": 1e3 * read.step_time_s,
            "parts_add_up": sum(read.parts_s.values()) / read.step_time_s,
            "slowest_stage": read.stages[0].name if read.stages else None,
        }
        print(json.dumps(row), flush=True)
    # Some pipelines would keep the interpreter from ending.
    os._exit(0)


def grouped() -> list[list[str]]:
    """Those that can be measured in one process: devices are settled when TensorFlow starts."""
    ways: dict[str, list[str]] = defaultdict(list)
    for name in NAMES.split():
        _, *way, _ = name.split("/")
        ways["/".join(way)].append(name)
    return list(ways.values())


def points(one: float | None, other: float | None) -> float | None:
    return None if one is None or other is None else 100 * abs(one - other)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path)
    parser.add_argument("--measure", nargs="+", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.measure:
        measure(arguments.measure)
    rows = []
    for names in track(grouped(), "ways of running"):
        finished = subprocess.run(
            [sys.executable, __file__, "--measure", *names],
            stdout=subprocess.PIPE,
            text=True,
            timeout=LIMIT_S,
            check=True,
            env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"},
        )
        rows += [json.loads(line) for line in finished.stdout.splitlines()]
    table = Table("", "step ms", "always on", "capture", "xprof", "off always on", "off xprof")
    table.columns[0].no_wrap = True
    for row in rows:
        row["off_always_on_points"] = points(row["capture"], row["always_on"])
        row["off_xprof_points"] = points(row["capture"], row["xprof"])
        percents = [row[key] and 100 * row[key] for key in ("always_on", "capture", "xprof")]
        offs = row["off_always_on_points"], row["off_xprof_points"]
        cells = [row["step_ms"], *percents, *offs]
        table.add_row(row["name"], *("-" if cell is None else f"{cell:.1f}" for cell in cells))
    Console(width=110).print(table)
    if arguments.json:
        save(arguments.json, __file__, rows=rows, steps=STEPS)


if __name__ == "__main__":
    main()
