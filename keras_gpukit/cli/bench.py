"""`keras-gpukit bench`: measures what this machine's GPU and CPU do, in a minute."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from keras_gpukit.cli.command_line import above_0, fail
from keras_gpukit.cli.json_output import add_json_flags, print_json


def add_parser(subparsers: Any) -> None:
    """Adds the command to the `keras-gpukit` parser."""
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
    parser.set_defaults(func=run)


def run(args: argparse.Namespace) -> int:
    """Measures, prints and saves the results."""
    from keras_gpukit.cli.quiet import quiet_tensorflow
    from keras_gpukit.tuning.bench import bench, save
    from keras_gpukit.tuning.progress import ProgressLine

    shown = sys.stdout.isatty() and not args.json
    with quiet_tensorflow(), ProgressLine("bench", args.seconds, shown=shown) as tell:
        found = bench(args.seconds, tell)
    if args.json:
        print_json(found)
    else:
        from keras_gpukit.reports.rates import benchmark_view as render
        from keras_gpukit.reports.terminal import print_anywhere

        print_anywhere(render(found))
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
