"""How exact the input stall is: what `InputStall` reports, next to what is known in two other ways.

    python benchmarks/stall_accuracy.py --json benchmarks/results/stall_accuracy.json

Real fits, of pipelines and steps that take known times (`planted/known_times.py`). What is reported
of each is compared with a profile of the very same steps (`xplane_truth.py`), and that with what
follows from how pipeline and step are made. The two share neither clock nor code with each other,
nor with keras_gpukit.
"""

from __future__ import annotations

import fnmatch
import json
import os
import subprocess
import sys

from harness import argument_parser, print_table
from results_file import save, saved_rows
from rich.console import Console
from rich.progress import track

# Processes that share a way of running; were one to hang, few were lost.
AT_ONCE = 12
LIMIT_S = 280
FIT = "--fit"
SHORT = "/short/"
"""In the names of combinations with steps of 6 ms."""
TRUTHS = {"profile": "profile", "constructed": "construction"}
"""What is known, as rows name it and as it is printed."""
# A name is pipeline/mode/steps per execution/devices/stall aimed at in percent. Not all with all:
# each kind of pipeline limits some way of running, and each way of running by some kinds of
# pipeline. Under several devices XLA cannot compile a mirrored step on a CPU.
COMBINATIONS = """
serial/graph/spe1/one 0 25 50 75 95
serial/jit/spe1/one 0 25 50 75
serial/eager/spe1/one 0 25 50 75
prefetched/graph/spe1/one 0 50 90
bursty/graph/spe1/one 25 50
cached/graph/spe1/one 0 50
cached/jit/spe1/one 0
parallel/graph/spe1/one 0 50 75
parallel/eager/spe1/one 50
autotuned/graph/spe1/one 50
interleaved/graph/spe1/one 0 25 75
interleaved/eager/spe1/one 50
no-autotune/graph/spe1/one 0 50 90
no-autotune/jit/spe1/one 50
no-autotune-shuffled/graph/spe1/one 50
arrays/graph/spe1/one 0
arrays/jit/spe1/one 0
arrays/eager/spe1/one 0
pydataset/graph/spe1/one 0 50 75
pydataset/jit/spe1/one 50
pydataset-threads/graph/spe1/one 0 50 75
pydataset-threads/eager/spe1/one 50
pydataset-processes/graph/spe1/one 0 50
generator/graph/spe1/one 0 50 75
generator/eager/spe1/one 25
serial/graph/spe1/two 0 50 75
serial/eager/spe1/two 50
interleaved/graph/spe1/two 50
no-autotune/graph/spe1/two 50
arrays/graph/spe1/two 0
pydataset/graph/spe1/two 50
generator/graph/spe1/two 50
serial/graph/spe8/one 0 25 50 75 90
serial/jit/spe8/one 0 50 75
serial/eager/spe8/one 0 50
prefetched/graph/spe8/one 50
bursty/graph/spe8/one 50
cached/graph/spe8/one 0
parallel/graph/spe8/one 50
interleaved/graph/spe8/one 25 75
no-autotune/graph/spe8/one 50
arrays/graph/spe8/one 0
pydataset/graph/spe8/one 50
pydataset-threads/graph/spe8/one 50
generator/graph/spe8/one 0 50
serial/graph/spe8/two 0 50 75
interleaved/graph/spe8/two 50
serial/short/spe5/one 0 25 50 63 75
prefetched/short/spe5/one 63
parallel/short/spe5/one 63
bursty/short/spe5/one 63
"""


def chosen(pattern: str) -> list[str]:
    """Returns the combinations whose names match a shell pattern."""
    names = []
    for line in COMBINATIONS.strip().split("\n"):
        group, *percents = line.split()
        names += [f"{group}/{percent}" for percent in percents]
    return fnmatch.filter(names, pattern)


def grouped(names: list[str]) -> list[list[str]]:
    """Those that can be measured in one process: they share a way of running."""
    ways: dict[str, list[str]] = {}
    for name in names:
        _, *way, _ = name.split("/")
        ways.setdefault("/".join(way), []).append(name)
    return [
        group[start : start + AT_ONCE]
        for group in ways.values()
        for start in range(0, len(group), AT_ONCE)
    ]


def fit(names: list[str]) -> None:
    """Measures combinations of one way of running in this process, and prints a row of each."""
    import keras
    import tensorflow as tf
    from planted.known_times import PIPELINES
    from planted.ways import Way

    _, mode, execution, devices, _ = names[0].split("/")
    way = Way(mode, int(execution.removeprefix("spe")), devices)
    versions = {"tensorflow": tf.__version__, "keras": keras.__version__}
    for name in names:
        pipeline, *_, percent = name.split("/")
        row = way.measure(PIPELINES[pipeline], int(percent))
        print(json.dumps({"name": name, **row, **versions}), flush=True)
    os._exit(0)  # some pipelines would keep the interpreter from ending


def measure(names: list[str], environment: dict[str, str]) -> list[dict]:
    """Measures combinations in one process; those that fail or hang tell why."""
    command = [sys.executable, __file__, FIT, *names]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, env=environment, timeout=LIMIT_S
        )
        output, trouble = done.stdout, (done.stderr.strip().split("\n") or [""])[-1]
    except subprocess.TimeoutExpired as expired:
        output, trouble = (expired.stdout or b"").decode(), f"took over {LIMIT_S} s"
    rows = [json.loads(line) for line in output.split("\n") if line.startswith("{")]
    return rows + [{"name": name, "failed": trouble} for name in names[len(rows) :]]


def off(row: dict, truth: str) -> float | None:
    """Points of a hundred that are reported more than is known."""
    if row.get("reported") is None or row.get(truth) is None:
        return None
    return 100 * (row["reported"] - row[truth])


def outside(row: dict) -> float:
    """Points of a hundred by which the profile's stall is outside of the reported range."""
    least, true = row["reported"], row["profile"]
    most = least if row.get("most") is None else row["most"]
    return 100 * max(least - true, true - most, 0.0)


def bar(
    text: str, values: list[float], limit: float, at_least: int | None = None
) -> tuple[str, bool, str]:
    """What must hold of all values, or of so many; whether it does; and figures."""
    within = sum(value <= limit for value in values)
    wanted = len(values) if at_least is None else min(at_least, len(values))
    return text, within >= wanted, f"{within} of {len(values)}, worst {max(values):.2f}"


def bars(rows: list[dict]) -> list[tuple[str, bool, str]]:
    """What must hold, whether it does, and figures; nothing of what was not measured."""
    short = [row for row in rows if SHORT in row["name"] and off(row, "profile") is not None]
    rows = [row for row in rows if SHORT not in row["name"]]
    limits: list[tuple] = []
    for truth, known in TRUTHS.items():
        compared = [row for row in rows if off(row, truth) is not None]
        points = [abs(off(row, truth)) for row in compared]
        one, more = (
            [abs(off(row, truth)) for row in compared if f"/{execution}/" in row["name"]]
            for execution in ("spe1", "spe8")
        )
        free = [100 * row["reported"] for row in compared if row[truth] <= 0.01]
        limits += [
            (f"{known}, 1 step an execution: off by at most 2 pp, 40 times", one, 2, 40),
            (f"{known}, 8 steps an execution: off by at most 5 pp", more, 5),
            (f"{known}: off by at most 8 pp", points, 8),
            (f"{known}, not stalled: at most 1 point reported", free, 1),
        ]
    both = [row for row in rows if all(row.get(truth) is not None for truth in TRUTHS)]
    apart = [100 * abs(row["constructed"] - row["profile"]) for row in both]
    limits += [
        ("the two known: apart by at most 5 pp", apart, 5),
        (
            "profile, 5 short steps an execution: outside of the range by at most 5 pp",
            [outside(row) for row in short],
            5,
        ),
    ]
    return [bar(*limit) for limit in limits if limit[1]]


def show(rows: list[dict]) -> None:
    def percent(fraction: float | None) -> str:
        return "" if fraction is None else f"{100 * fraction:.1f}"

    def points(value: float | None) -> str:
        return "" if value is None else f"{value:+.1f}"

    holding = [
        f"{'holds' if holds else 'FAILS'}  {text}: {figures}" for text, holds, figures in bars(rows)
    ]
    labels = [
        f"{label}: {sum(row.get('confidence') == label for row in rows)}"
        for label in ("exact", "sampled", "upper bound")
    ]
    unknown = sum("reported" in row and row["reported"] is None for row in rows)
    print_table(
        "input stall, % of the step",
        ("combination", "reported", *TRUTHS.values(), "off", "off", ""),
        [
            (
                row["name"],
                *(percent(row.get(key)) for key in ("reported", *TRUTHS)),
                *(points(off(row, truth)) for truth in TRUTHS),
                row.get("failed") or row.get("unknown_because") or row["confidence"],
            )
            for row in rows
        ],
        *holding,
        *labels,
        f"unknown: {unknown}",
        f"failed: {sum('failed' in row for row in rows)}",
    )


def save_rows(path: str, rows: list[dict]) -> None:
    [versions] = {(row["tensorflow"], row["keras"]) for row in rows if "keras" in row} or {()}
    save(
        path,
        __file__,
        dict(zip(("tensorflow", "keras"), versions, strict=False)),
        bars=[
            {"bar": text, "holds": holds, "figures": figures} for text, holds, figures in bars(rows)
        ],
        rows=rows,
    )


def main() -> int:
    parser = argument_parser(__doc__)  # with --only, others in the file are kept
    parser.add_argument("--only", help="combinations to measure: a shell pattern")
    parser.add_argument("--keras", help="a folder with another Keras, as pip --target makes it")
    arguments = parser.parse_args()
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "KERAS_BACKEND": "tensorflow"}
    if arguments.keras:
        paths = [arguments.keras, *filter(None, [os.environ.get("PYTHONPATH")])]
        environment["PYTHONPATH"] = os.pathsep.join(paths)

    measured, rows = {}, []
    if arguments.only:
        measured = {row["name"]: row for row in saved_rows(arguments.json, "rows")}
    groups = grouped(chosen(arguments.only or "*"))
    for names in track(groups, console=Console(stderr=True), transient=True):
        measured |= {row["name"]: row for row in measure(names, environment)}
        rows = [measured[name] for name in chosen("*") if name in measured]
        if arguments.json:
            save_rows(arguments.json, rows)
    show(rows)
    return 0 if all(holds for _, holds, _ in bars(rows)) else 1


if __name__ == "__main__":
    if sys.argv[1:2] == [FIT]:
        fit(sys.argv[2:])
    sys.exit(main())
