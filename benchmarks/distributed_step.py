"""What a step of `fit` costs with several workers, next to TensorFlow's own training loop.

    python benchmarks/distributed_step.py --json benchmarks/results/distributed_step.json

Worker processes on this machine train a model over one strategy in two ways, a block of steps at a
time, in an order that changes from round to round: by `model.fit`, and by the loop of TensorFlow's
guide (a `tf.function` that runs the step on the replicas and reduces their losses). The chief times
a block without its first steps, by the clock and by its processor time; each round gives the ratio
of its two blocks. Processor time is what a step costs also where other programs keep the machine
busy.
"""

from __future__ import annotations

import json
import os
import socket
import statistics
import subprocess
import sys
from pathlib import Path

from harness import argument_parser, print_table
from results_file import save

from keras_gpukit.trials.measuring.intervals import median_interval

WAYS = ("fit", "loop")


def main() -> None:
    parser = argument_parser(__doc__)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--steps", type=int, default=25, help="timed steps of a block")
    arguments = parser.parse_args()
    blocks = start_workers(arguments)
    measures = {
        measure: summed_up(*([block[measure] for block in blocks[way]] for way in WAYS))
        for measure in ("clock", "processor")
    }
    print_table(
        f"A step with {arguments.workers} workers",
        ("by", "fit, ms", "loop, ms", "fit costs, %", "95 %"),
        [
            (
                measure,
                *(f"{value:.2f}" for value in figures["step_ms"].values()),
                f"{figures['cost_percent']:+.1f}",
                "{:+.1f} to {:+.1f}".format(*figures["interval_percent"]),
            )
            for measure, figures in measures.items()
        ],
    )
    if arguments.json:
        save(
            arguments.json,
            __file__,
            workers=arguments.workers,
            rounds=arguments.rounds,
            steps=arguments.steps,
            by=measures,
            load_of_machine=os.getloadavg()[1],
        )


def summed_up(fit_s: list[float], loop_s: list[float]) -> dict:
    """Medians of both ways, and of their ratio."""
    ratios = [fit / loop for fit, loop in zip(fit_s, loop_s, strict=True)]
    low, high = median_interval(ratios)
    return {
        "step_ms": {"fit": 1e3 * statistics.median(fit_s), "loop": 1e3 * statistics.median(loop_s)},
        "cost_percent": 100 * (statistics.median(ratios) - 1),
        "interval_percent": [100 * (low - 1), 100 * (high - 1)],
    }


def start_workers(arguments) -> dict[str, list[dict[str, float]]]:
    """Runs the workers, and returns what the chief printed."""
    script = str(Path(__file__).with_name("distributed_work.py"))
    command = [sys.executable, script, str(arguments.rounds), str(arguments.steps)]
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(arguments.workers)]
    addresses = [f"127.0.0.1:{each.getsockname()[1]}" for each in sockets]
    for each in sockets:
        each.close()
    processes = []
    for index in range(arguments.workers):
        config = {"cluster": {"worker": addresses}, "task": {"type": "worker", "index": index}}
        processes.append(
            subprocess.Popen(
                command,
                env={**os.environ, "TF_CONFIG": json.dumps(config)},
                stdout=subprocess.PIPE,
                text=True,
            )
        )
    outputs = [process.communicate()[0] for process in processes]
    if any(process.returncode for process in processes):
        raise SystemExit("a worker failed")
    return json.loads(outputs[0].splitlines()[-1])


if __name__ == "__main__":
    main()
