"""How long the report of a very long run takes, and how large it gets.

    python benchmarks/report_size.py [--windows 1000000] [--json FILE]

Writes a `run.jsonl` as a run of that many windows of steps would: about one each second, a reading
of the host with each. A single window in the middle is twenty times as slow as the others, and must
still be seen.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import msgspec
from harness import argument_parser
from results_file import save

from keras_gpukit.records.machine import HostSample
from keras_gpukit.records.steps import StepWindow
from keras_gpukit.saved_runs.writing.json_lines import JsonLines

BEGAN_S = 1.7e9
STEPS_A_WINDOW = 500
OUTLIER = 20.0


def main() -> None:
    parser = argument_parser(__doc__)
    parser.add_argument("--windows", type=int, default=1_000_000)
    args = parser.parse_args()
    rows = {}
    for name, has_host in (("windows alone", False), ("with readings of the host", True)):
        with tempfile.TemporaryDirectory() as folder:
            rows[name] = measure(Path(folder), args.windows, has_host)
        print(f"{name:<28}", *(f"{key} {value:,.1f}" for key, value in rows[name].items()))
    if args.json:
        save(args.json, __file__, windows=args.windows, rows=rows)


def measure(folder: Path, windows: int, has_host: bool) -> dict[str, float]:
    """The command, in a process of its own."""
    record, out = folder / "gpukit" / "run.jsonl", folder / "report.html"
    write_run(record, windows, has_host)
    began, began_cpu_s = time.perf_counter(), children_cpu_s()
    command = [sys.executable, "-m", "keras_gpukit", "report", str(folder), "--out", str(out)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    seconds, cpu_s = time.perf_counter() - began, children_cpu_s() - began_cpu_s
    result = subprocess.run([*command[:-2], "--json"], check=True, capture_output=True)
    highest = msgspec.json.decode(result.stdout)["runs"][0]["steps"]["figures"]["step_time_s"][
        "high"
    ]
    usual_s = 1.0 / STEPS_A_WINDOW
    assert max(highest) > 0.9 * OUTLIER * usual_s, "the outlier is not in the report"
    return {
        "record_mb": record.stat().st_size / 1e6,
        "seconds": round(seconds, 2),
        "processor_seconds": round(cpu_s, 2),
        "report_mb": round(out.stat().st_size / 1e6, 2),
        "memory_mb": resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1e3,
    }


def children_cpu_s() -> float:
    """What the machine's other work does not change, as it does the time by the clock."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def write_run(path: Path, windows: int, has_host: bool) -> None:
    """Writes the record of a run, in batches."""
    file = JsonLines(path)
    file.write_records([(BEGAN_S, None, "run", {"schema": 1, "time_s": BEGAN_S})])
    for first in range(0, windows, 10_000):
        lines = []
        for number in range(first, min(first + 10_000, windows)):
            step, time_s = (number + 1) * STEPS_A_WINDOW, BEGAN_S + number + 1
            slow = OUTLIER if number == windows // 2 else 1.0
            wobble = 0.1 * (number % 7) / 7
            window = StepWindow(
                phase="fit",
                time_s=time_s,
                step=step,
                steps=STEPS_A_WINDOW,
                duration_s=slow * (1.0 - wobble),
                input_wait_s=0.2 * slow * (1.0 - wobble) + 0.01 * (number % 3),
                examples=32 * STEPS_A_WINDOW,
                buffered_batches=float(number % 3),
            )
            lines.append((time_s, step, "steps", window))
            if has_host:
                sample = HostSample(50.0 + number % 11, 40.0, 2**30 + number, 2**33, 2**34, 1e6)
                lines.append((time_s, step, "host", sample))
        file.write_records(lines)
    file.close()


if __name__ == "__main__":
    main()
