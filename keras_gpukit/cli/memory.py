"""`keras-gpukit memory`: predicts the memory that training an unchanged script needs."""

from __future__ import annotations

import argparse
from typing import Any

from keras_gpukit.cli.command_line import add_command, check_script, end, positive

USAGE = "keras-gpukit memory [--batch-size N] (SCRIPT | -m MODULE) [ARGUMENT ...]"
DESCRIPTION = """\
Runs a training script up to its first fit(), and predicts the memory of its training steps by
cause, without running one. Then it ends the script. Exits with 2 if nothing could be predicted."""


def add_parser(subparsers: Any) -> None:
    """Adds the command to the `keras-gpukit` parser."""
    parser = add_command(
        subparsers,
        "memory",
        run,
        help="predict the memory that an unchanged script's training needs",
        usage=USAGE,
        description=DESCRIPTION,
    )
    parser.add_argument(
        "--batch-size",
        type=positive,
        metavar="N",
        help="predict for this batch size instead of the script's own",
    )


def run(args: argparse.Namespace) -> int:
    """Runs the script to its first `fit`.

    Returns:
        0 after a prediction, else 2.
    """
    from keras_gpukit.scripts.first_fit import ask_first_fit, predict

    check_script(args)
    return end("memory", ask_first_fit(predict(args.batch_size), args))
