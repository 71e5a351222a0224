"""`keras-gpukit tune`: measures which changes make an unchanged script train faster."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from keras_gpukit.cli.command_line import (
    above_0,
    add_command,
    add_json_flags,
    check_script,
    fail,
    folder,
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


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds the command to the `keras-gpukit` parser."""
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
    from keras_gpukit.reports.searches import speedup_view as render
    from keras_gpukit.reports.terminal import print_anywhere
    from keras_gpukit.rules.speedups import TOLERANCE, changes_to_try
    from keras_gpukit.scripts.tuned_script import TunedScript
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
        print_anywhere(render(found))
    return 130 if found.ending == "interrupted" else 0


def _recorded(log_dir: Path) -> tuple[Promise, ...]:
    """Returns the promises of the findings on the newest run of a log folder, if it has one."""
    from keras_gpukit.rules.speedups import promises
    from keras_gpukit.saved_runs import load_report

    try:
        runs = load_report(log_dir).runs
    except OSError:
        return ()
    fits = [each for each in runs if each.phase == "fit"]
    return promises(fits[0].summary) if fits else ()
