"""`keras-gpukit memory`: what an unchanged script's training needs, without training."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from keras_gpukit.cli.command_line import add_script

USAGE = "keras-gpukit memory [--batch-size N] (SCRIPT | -m MODULE) [ARGUMENT ...]"
DESCRIPTION = """\
Runs a training script up to its first fit(), and predicts the memory of its training steps by
cause, without running one. Then it ends the script. Exits with 2 if nothing could be predicted."""

VALUE_FLAGS = frozenset({"--batch-size"})
"""Those that are followed by a value."""


def add_parser(subparsers: Any) -> None:
    """Adds the command to the `keras-gpukit` parser."""
    parser = subparsers.add_parser(
        "memory",
        help="predict the memory that an unchanged script's training needs",
        usage=USAGE,
        description=DESCRIPTION,
        allow_abbrev=False,
    )
    add_script(parser)
    parser.add_argument(
        "--batch-size",
        type=_positive,
        metavar="N",
        help="predict for this batch size instead of the script's own",
    )
    parser.set_defaults(func=run, error=parser.error)


def _positive(text: str) -> int:
    number = int(text) if text.isdigit() else 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"must be a whole number from 1 on, and is {text!r}")
    return number


def run(args: argparse.Namespace) -> int:
    """Runs the script to its first `fit`.

    Returns:
        0 after a prediction, else 2.
    """
    from keras_gpukit.running.first_fit import FirstFit
    from keras_gpukit.running.main_module import CannotOpenError, run_module, run_script

    if args.script is None and args.module is None:
        args.error("give the SCRIPT to run, or -m MODULE")
    first_fit = FirstFit(args.batch_size)
    first_fit.install()
    failed_because = None
    try:
        if args.module is None:
            run_script(args.script, args.script_arguments)
        else:
            run_module(args.module, args.script_arguments)
    except CannotOpenError as error:
        failed_because = str(error)
    except SystemExit:
        if first_fit.has_asked:
            return _end(first_fit.failed_because)
        raise
    return _end(failed_because or first_fit.failed_because)


def _end(failed_because: str | None) -> int:
    if failed_because is None:
        return 0
    print(f"keras-gpukit memory: {failed_because}.", file=sys.stderr)
    return 2
