"""`keras-gpukit doctor` and `bench`: whether this machine can train on GPUs, and how fast."""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

from keras_gpukit.cli.command_line import (
    above_0,
    add_json_flags,
    fail,
    print_json,
    quiet_tensorflow,
)


def add_parser(subparsers: Any) -> None:
    """Adds both commands to the `keras-gpukit` parser."""
    _add_doctor(subparsers)
    _add_bench(subparsers)


def _add_doctor(subparsers: Any) -> None:
    parser = subparsers.add_parser(
        "doctor",
        help="check whether this machine can train on its GPUs, and if not, why",
        description="Checks versions, driver, CUDA libraries and GPUs, says what blocks a GPU and "
        "how to fix it, and what configure_gpus() would do. Changes nothing. Exits with 0 if a GPU "
        "can be used, else 1.",
    )
    add_json_flags(parser, "doctor", "print the findings as JSON")
    parser.set_defaults(func=examine_machine)


def examine_machine(args: argparse.Namespace) -> int:
    """Examines the machine and prints what it found."""
    from keras_gpukit.cli.examination import examine, view

    if sys.stderr.isatty():
        print("Checking …", file=sys.stderr)  # it takes seconds, more on a busy machine
    with quiet_tensorflow() as show_log:
        found, backend = examine()
        if found.tensorflow_build.cuda is None:  # TensorFlow or Keras could not be loaded
            show_log()
    if args.json:
        from keras_gpukit.records.codec import to_dict

        # Paths in environment variables may be no text, which only this one writes.
        print(json.dumps(to_dict(found), indent=2))
    else:
        from keras_gpukit.reports.terminal import PipedConsole

        PipedConsole().print(view(found, backend))
    return 0 if found.can_train_on_gpu else 1


def _add_bench(subparsers: Any) -> None:
    parser = subparsers.add_parser(
        "bench",
        help="measure in a minute how fast this machine's GPU and CPU are",
        description="Measures the highest rates of matrix products and copies, then trains three "
        "small models on the first GPU and on the CPU, in several precisions, with and without "
        "XLA. The most important rows come first; if time runs out, the rest is listed. Results "
        "are kept in ~/.cache/keras_gpukit, where reports find them. Exits with 2 if nothing could "
        "be measured.",
    )
    parser.add_argument(
        "--seconds", type=above_0, default=60.0, metavar="N", help="time limit (default: 60)"
    )
    add_json_flags(parser, "bench", "print the results as JSON")
    parser.set_defaults(func=measure_machine)


def measure_machine(args: argparse.Namespace) -> int:
    """Measures, prints and saves the results."""
    from keras_gpukit.tuning.bench import bench, save
    from keras_gpukit.tuning.sources import ProgressLine

    shown = sys.stdout.isatty() and not args.json
    with quiet_tensorflow(), ProgressLine("bench", args.seconds, shown=shown) as show_progress:
        found = bench(args.seconds, show_progress)
    if args.json:
        print_json(found)
    else:
        from keras_gpukit.reports.rates import benchmark_view
        from keras_gpukit.reports.terminal import print_anywhere

        print_anywhere(benchmark_view(found))
    for device in found.devices:
        try:
            path = save(device)
        except OSError as error:
            fail("bench", f"the results are not kept: {error}")
            continue
        if path is not None and not args.json:
            print(f"Saved: {path}")
    if found.interrupted:
        return 130
    measured = (device.ceilings or any(row.rate for row in device.rows) for device in found.devices)
    return 0 if any(measured) else fail("bench", "nothing was measured")
