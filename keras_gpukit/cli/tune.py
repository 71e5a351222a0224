"""`keras-gpukit tune`, `memory` and `batch-size`, which run a script up to its first `fit`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from keras_gpukit.cli.command_line import (
    above_0,
    add_command,
    add_json_flags,
    check_script,
    fail,
    folder,
    positive,
    print_json,
)
from keras_gpukit.errors import NOT_ON_WINDOWS

if TYPE_CHECKING:
    from keras_gpukit.records.tuning import Promise

USAGE = "keras-gpukit tune [OPTION ...] (SCRIPT | -m MODULE) [ARGUMENT ...]"
DESCRIPTION = """\
Runs a training script several times up to its first fit(), and measures how fast it trains:
unchanged, with one change after another, and with the changes that gain together. Prints the gains
and the lines to change. The script stays as it is, but whatever it does before its first fit()
happens once for each change. Exits with 0 if something was measured, with 2 if the unchanged script
could not be, and with 130 after Ctrl-C, which prints what is known by then."""


def add_parser(subparsers: Any) -> None:
    """Adds the commands to the `keras-gpukit` parser."""
    _add_tune(subparsers)
    _add_first_fit(subparsers)


def _add_tune(subparsers: Any) -> None:
    parser = add_command(
        subparsers,
        "tune",
        run,
        help="measure which changes make training faster",
        usage=USAGE,
        description=DESCRIPTION,
    )
    parser.add_argument(
        "--try",
        dest="changes",
        action="append",
        default=[],
        metavar="CODE",
        help="try only what the finding with this code advises, or the change of this name: input, "
        "graph, jit, no-jit, steps-per-execution, mixed-precision, memory-pool, batch-size; may be "
        "repeated",
    )
    parser.add_argument(
        "--minutes",
        type=above_0,
        default=5.0,
        metavar="N",
        help="how long to try changes (default: 5)",
    )
    parser.add_argument(
        "--tolerance",
        type=above_0,
        metavar="SHARE",
        help="how much the loss may differ for a change to be kept (default: 0.05)",
    )
    parser.add_argument(
        "--log-dir",
        type=folder,
        default=Path("logs"),
        help="folder of an earlier run, whose promised savings are compared with the measured ones "
        "(default: %(default)s)",
    )
    add_json_flags(parser, "tune", "print the result as JSON")


def run(args: argparse.Namespace) -> int:
    """Tries the changes and prints the result; returns the exit code."""
    if sys.platform == "win32":
        return fail("tune", NOT_ON_WINDOWS)
    from keras_gpukit.errors import TrialError
    from keras_gpukit.reports.searches import speedup_view
    from keras_gpukit.reports.terminal import print_anywhere
    from keras_gpukit.rules.speedups import TOLERANCE, changes_to_try
    from keras_gpukit.scripts.first_fit import TunedScript
    from keras_gpukit.tuning.tune import search

    check_script(args)
    try:
        names = changes_to_try(args.changes)
    except ValueError as error:
        return fail("tune", error)
    script = TunedScript(args.script, args.module, tuple(args.script_arguments))
    try:
        found = search(
            script.start,
            args.module or Path(args.script).name,
            names=names,
            minutes=args.minutes,
            tolerance=args.tolerance or TOLERANCE,
            shown=not args.json,
            recorded=_recorded(args.log_dir.expanduser()),
        )
    except TrialError as error:
        return fail("tune", error)
    if args.json:
        print_json(found)
    else:
        print_anywhere(speedup_view(found))
    return 130 if found.ending == "interrupted" else 0


def _recorded(log_dir: Path) -> tuple[Promise, ...]:
    """Returns the promises of the findings on the newest run of a log folder, if it has one."""
    from keras_gpukit.rules.speedups import promises
    from keras_gpukit.saved_runs.log_folder import load_report

    try:
        runs = load_report(log_dir).runs
    except OSError:
        return ()
    fits = [run for run in runs if run.phase == "fit"]
    return promises(fits[0].summary) if fits else ()


MEMORY = """\
Runs a training script up to its first fit(), predicts the memory of its steps by cause without
training, and ends the script. Exits with 2 if nothing could be predicted."""
BATCH_SIZE = """\
Runs a training script up to its first fit(), tries batch sizes by training with them, and ends the
script. Exits with 2 if none could be found."""


def _add_first_fit(subparsers: Any) -> None:
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
