"""What a tf.data service of two workers brings to a slow map, on one machine.

    python benchmarks/input_service.py --json benchmarks/results/input_service.json

Two pipelines with a serial map: one waits 5 ms for each element, as for a remote store, the other
computes. Each is read as it is, with the map in parallel, and through `keras-gpukit input-service`,
in rounds and in turn. The workers have the same cores as the reader, so only waiting can be faster
there; on machines of their own they would bring their cores.
"""

from __future__ import annotations

import os
import re
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import tensorflow as tf
from harness import argument_parser, in_turns, print_table
from results_file import save
from tensorflow.python.data.experimental.ops.testing import sleep

from keras_gpukit.tuning.measuring import median_interval, rate_of

BATCH = 8
WAIT_S = 0.005
READ_S = 1.5
WORKERS = 2


def waiting(value):
    element = tf.data.Dataset.from_tensors(value).apply(sleep(int(WAIT_S * 1e6)))
    return element.get_single_element()


def computing(value):
    matrix = tf.fill([160, 160], tf.cast(value, tf.float32))
    for _ in range(20):
        matrix = tf.tanh(matrix @ matrix)
    return tf.reduce_sum(matrix)


def pipelines(function: Callable, address: str) -> dict[str, tf.data.Dataset]:
    source = tf.data.Dataset.range(10**9)
    distribute = tf.data.experimental.service.distribute("distributed_epoch", address)
    return {
        "serial": source.map(function).batch(BATCH),
        "parallel": source.map(function, num_parallel_calls=tf.data.AUTOTUNE).batch(BATCH),
        "service": source.map(function).apply(distribute).batch(BATCH),
    }


def reader(dataset: tf.data.Dataset) -> Callable[[], float]:
    def read() -> float:
        iterator = iter(dataset)
        return BATCH * rate_of(lambda: next(iterator), READ_S, settling=0.5)

    return read


@contextmanager
def service() -> Iterator[str]:
    command = [sys.executable, "-m", "keras_gpukit", "input-service", "--port", "0"]
    command += ["--workers", str(WORKERS)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as running:
        try:
            assert running.stdout is not None
            lines = running.stdout
            yield next(found[0] for line in lines if (found := re.search(r"grpc:\S+", line)))
        finally:
            running.terminate()


def main() -> int:
    parser = argument_parser(__doc__)
    parser.add_argument("--rounds", type=int, default=9)
    arguments = parser.parse_args()
    rows = {}
    with service() as address:
        for function in (waiting, computing):
            reads = {name: reader(each) for name, each in pipelines(function, address).items()}
            for read in reads.values():  # the first reading waits for the workers to start
                read()
            rates = in_turns(reads, arguments.rounds)
            gains = [a / b for a, b in zip(rates["service"], rates["serial"], strict=True)]
            rows[function.__name__] = {
                **{f"{name}_per_s": statistics.median(found) for name, found in rates.items()},
                "gain": statistics.median(gains),
                "low": median_interval(gains)[0],
                "high": median_interval(gains)[1],
            }
    print_table(
        f"elements/s, service with {WORKERS} workers on this machine",
        ("map", "serial", "parallel", "service", "gain over serial", "95 %"),
        [
            (
                name,
                *(f"{row[f'{key}_per_s']:,.0f}" for key in ("serial", "parallel", "service")),
                f"{row['gain']:.2f}",
                f"{row['low']:.2f} to {row['high']:.2f}",
            )
            for name, row in rows.items()
        ],
    )
    if arguments.json:
        save(arguments.json, __file__, rounds=arguments.rounds, workers=WORKERS, pipelines=rows)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
