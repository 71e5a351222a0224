"""How much later TensorBoard answers for the tab "GPU Kit".

    python benchmarks/tensorboard_start.py --json benchmarks/results/tensorboard_start.json

Each round starts TensorBoard once with the plugin and once without, in an order of its own, on a
log directory of a thousand folders. What is timed goes to the answer which tabs there are, with
which TensorBoard's page begins, once TensorFlow is loaded: that takes seconds, with and without the
plugin, and varies by more than the plugin costs. Other work on the machine only ever makes a start
slower, so the fastest ones are compared as well, and the plugin's own part is timed alone.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
from functools import partial
from importlib import metadata
from pathlib import Path

from harness import argument_parser, in_turns, print_table
from results_file import save

from keras_gpukit.tuning.measuring import median_interval

FOLDERS = 1000
# As `tensorboard` does it, with the plugins that are asked for.
START = """
import json, sys, time
import tensorflow
from tensorboard import default, program
began_s, began_cpu_s = time.perf_counter(), time.process_time()
every, wanted = default._iter_entry_points, json.loads(sys.argv[2])
default._iter_entry_points = lambda group: [e for e in every(group) if e.name in wanted]
tensorboard = program.TensorBoard(plugins=default.get_plugins())
options = ["--logdir", sys.argv[1], "--host", "127.0.0.1", "--port", "0", "--load_fast=false"]
tensorboard.configure(argv=["tensorboard", *options])
address = tensorboard.launch()
import urllib.request
with urllib.request.urlopen(address + "data/plugins_listing") as answer:
    shown = json.load(answer)
print(time.perf_counter() - began_s, time.process_time() - began_cpu_s)
assert ("gpukit" in shown) == ("gpukit" in wanted)
"""
# What TensorBoard asks of a plugin until its page can be shown.
ALONE = """
import sys, time
import tensorboard.default, tensorboard.backend.http_util
from importlib.metadata import entry_points
from argparse import Namespace
from tensorboard.plugins import base_plugin
(entry,) = entry_points(group="tensorboard_plugins", name="gpukit")
context = base_plugin.TBContext(flags=Namespace(logdir_spec=""), logdir=sys.argv[1])
times = [time.perf_counter()]
plugin = entry.load()().load(context)
plugin.get_plugin_apps()
times.append(time.perf_counter())
plugin.is_active()
times.append(time.perf_counter())
print(*(after - before for before, after in zip(times, times[1:])))
"""
OTHERS = ("profile", "projector")


def run(script: str, *arguments: str) -> list[float]:
    """Runs Python in a process of its own; returns the figures that it prints last."""
    done = subprocess.run(
        [sys.executable, "-c", script, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        check=True,
        timeout=120,
    )
    return [float(figure) for figure in done.stdout.splitlines()[-1].split()]


def make_logdir(logdir: Path) -> None:
    """A thousand folders; the one with a run is the last to be looked into."""
    for number in range(FOLDERS // 2):
        (logdir / f"{number:04}" / "checkpoints").mkdir(parents=True)
    record = logdir / "zz" / "gpukit" / "run.jsonl"
    record.parent.mkdir(parents=True)
    record.write_text('{"kind": "run", "record": {"schema": 1, "time_s": 0.0}}\n')


def compare(without_s: list[float], with_s: list[float]) -> dict[str, float | list[float]]:
    """Of pairs, round by round."""
    later_s = [after - before for before, after in zip(without_s, with_s, strict=True)]
    return {
        "without_s": statistics.median(without_s),
        "with_s": statistics.median(with_s),
        "later_s": statistics.median(later_s),
        "later_interval_s": list(median_interval(later_s)),
        "fastest_later_s": min(with_s) - min(without_s),
    }


def measure(logdir: str, rounds: int) -> dict[str, dict[str, float | list[float]]]:
    plugins = {"without": json.dumps(OTHERS), "with": json.dumps((*OTHERS, "gpukit"))}
    starts = in_turns(
        {name: partial(run, START, logdir, names) for name, names in plugins.items()}, rounds
    )
    walls_s, cpus_s = (
        [[start[which] for start in starts[name]] for name in plugins] for which in (0, 1)
    )
    return {"wall time": compare(*walls_s), "processor time": compare(*cpus_s)}


def shown(figure: float | list[float]) -> str:
    ends = figure if isinstance(figure, list) else [figure]
    return " to ".join(f"{each:.3f}" for each in ends)


def main() -> None:
    parser = argument_parser(__doc__)
    parser.add_argument("--rounds", type=int, default=15)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as logdir:
        make_logdir(Path(logdir))
        starts = measure(logdir, args.rounds)
        alone = [run(ALONE, logdir) for _ in range(args.rounds)]
    loading_s, asking_s = (statistics.median(part) for part in zip(*alone, strict=True))

    columns = ("without_s", "with_s", "later_s", "later_interval_s", "fastest_later_s")
    print_table(
        "TensorBoard's start",
        ("", *columns),
        [(name, *(shown(figure[each]) for each in columns)) for name, figure in starts.items()],
        f"loading it takes {loading_s * 1e3:.0f} ms, "
        f"asking it first whether it is active {asking_s * 1e3:.0f} ms",
    )
    if args.json:
        versions = {name: metadata.version(name) for name in ("tensorflow", "tensorboard", "xprof")}
        figures = {"loading_s": loading_s, "first_is_active_s": asking_s}
        rounds = {"rounds": args.rounds, "folders": FOLDERS}
        save(args.json, __file__, versions, **rounds, starts=starts, **figures)


if __name__ == "__main__":
    main()
