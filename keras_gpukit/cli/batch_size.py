"""`keras-gpukit batch-size`: finds the batch sizes that an unchanged script can train with."""

from __future__ import annotations

import argparse
from typing import Any

from keras_gpukit.cli.command_line import add_command, check_script, end, positive

USAGE = "keras-gpukit batch-size [--max N] [--seconds N] (SCRIPT | -m MODULE) [ARGUMENT ...]"
DESCRIPTION = """\
Runs a training script up to its first fit(), and finds the largest batch size that fits and the
fastest one, by training with them. Then it ends the script. Exits with 2 if none could be found."""


def add_parser(subparsers: Any) -> None:
    """Adds the command to the `keras-gpukit` parser."""
    parser = add_command(
        subparsers,
        "batch-size",
        run,
        help="find the largest batch size that fits, and the fastest, for an unchanged script",
        usage=USAGE,
        description=DESCRIPTION,
    )
    parser.add_argument("--max", type=positive, metavar="N", help="the largest batch size to find")
    parser.add_argument(
        "--seconds", type=positive, default=90, metavar="N", help="how long to search, 90"
    )


def run(args: argparse.Namespace) -> int:
    """Runs the script to its first `fit`.

    Returns:
        0 if batch sizes were found, else 2.
    """
    from keras_gpukit.scripts.first_fit import ask_first_fit, find_size

    check_script(args)
    return end("batch-size", ask_first_fit(find_size(args.max, args.seconds), args))
