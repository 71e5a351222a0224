"""`keras-gpukit memory` and `batch-size`: answer a question about a script's first `fit`."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from keras_gpukit.cli.command_line import add_command, check_script, fail, positive
from keras_gpukit.errors import NOT_ON_WINDOWS

MEMORY = """\
Runs a training script up to its first fit(), predicts the memory of its steps by cause without
training, and ends the script. Exits with 2 if nothing could be predicted."""
BATCH_SIZE = """\
Runs a training script up to its first fit(), tries batch sizes by training with them, and ends the
script. Exits with 2 if none could be found."""


def add_parser(subparsers: Any) -> None:
    """Adds both commands to the `keras-gpukit` parser."""
    memory = add_command(
        subparsers,
        "memory",
        predict_memory,
        help="predict the memory that training needs, before it starts",
        usage="keras-gpukit memory [--batch-size N] (SCRIPT | -m MODULE) [ARGUMENT ...]",
        description=MEMORY,
    )
    memory.add_argument(
        "--batch-size",
        type=positive,
        metavar="N",
        help="predict for this batch size instead of the script's own",
    )
    sizes = add_command(
        subparsers,
        "batch-size",
        find_size,
        help="find the largest batch size that fits, and the fastest",
        usage="keras-gpukit batch-size [--max N] [--seconds N] (SCRIPT | -m MODULE) [ARGUMENT ...]",
        description=BATCH_SIZE,
    )
    sizes.add_argument("--max", type=positive, metavar="N", help="largest batch size to try")
    sizes.add_argument(
        "--seconds", type=positive, default=90, metavar="N", help="how long to search (default: 90)"
    )


def predict_memory(args: argparse.Namespace) -> int:
    """Runs the script to its first `fit`; returns 0 after a prediction, else 2."""
    from keras_gpukit.scripts import first_fit

    return _ask("memory", first_fit.predict(args.batch_size), args)


def find_size(args: argparse.Namespace) -> int:
    """Runs the script to its first `fit`; returns 0 if batch sizes were found, else 2."""
    if sys.platform == "win32":
        return fail("batch-size", NOT_ON_WINDOWS)
    from keras_gpukit.scripts import first_fit

    return _ask("batch-size", first_fit.find_size(args.max, args.seconds), args)


def _ask(command: str, question: Any, args: argparse.Namespace) -> int:
    from keras_gpukit.scripts.first_fit import ask_first_fit

    check_script(args)
    failed_because = ask_first_fit(question, args)
    return 0 if failed_because is None else fail(command, f"{failed_because}.")
