"""The stall read from a capture, next to the always-on one and xprof's, of the very same steps.

    python benchmarks/profile_stall.py --json benchmarks/results/profile_stall.json

Real fits, of pipelines and steps that take known times (`planted/known_times.py` and
`planted/ways.py`). Each is watched by `InputStall` and captured whole by `Profiler`; the
capture is then read by `keras_gpukit.profiling` and by xprof.

A combination's name is pipeline/mode/steps per execution/devices/stall aimed at in percent.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile

from harness import argument_parser, by_way_of_running, in_own_process, print_table
from results_file import save
from rich.progress import track

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
    from planted.known_times import PIPELINES
    from planted.ways import Way
    from xprof_figures import ask_xprof

    import keras_gpukit as gpukit
    from keras_gpukit.profiling import find_profiles, read_profile

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
            "xprof": asked["input_fraction"],
            "bottleneck": asked["bottleneck"],
            "steps": read.steps,
            "step_ms": 1e3 * read.step_time_s,
            "parts_add_up": sum(read.parts_s.values()) / read.step_time_s,
            "slowest_stage": read.stages[0].name if read.stages else None,
        }
        print(json.dumps(row), flush=True)
    # Some pipelines would keep the interpreter from ending.
    os._exit(0)


def points(one: float | None, other: float | None) -> float | None:
    return None if one is None or other is None else 100 * abs(one - other)


def main() -> None:
    parser = argument_parser(__doc__)
    parser.add_argument("--measure", nargs="+", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.measure:
        measure(arguments.measure)
    rows = []
    for names in track(by_way_of_running(NAMES.split()), "ways of running"):
        rows += in_own_process(__file__, ["--measure", *names], LIMIT_S)
    cells = []
    for row in rows:
        row["off_always_on_points"] = points(row["capture"], row["always_on"])
        row["off_xprof_points"] = points(row["capture"], row["xprof"])
        percents = [row[key] and 100 * row[key] for key in ("always_on", "capture", "xprof")]
        figures = row["step_ms"], *percents, row["off_always_on_points"], row["off_xprof_points"]
        cells.append((row["name"], *("-" if one is None else f"{one:.1f}" for one in figures)))
    headings = ("", "step ms", "always on", "capture", "xprof", "off always on", "off xprof")
    print_table("Input stall, in percent", headings, cells)
    if arguments.json:
        save(arguments.json, __file__, rows=rows, steps=STEPS)


if __name__ == "__main__":
    main()
