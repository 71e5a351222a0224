"""The `keras-gpukit` command: defines its subcommands, and runs one."""

from __future__ import annotations

import argparse
import os
import sys
import textwrap
from collections.abc import Sequence
from shutil import get_terminal_size
from typing import Any

from keras_gpukit.cli import (
    compare,
    demo,
    launch,
    machine,
    report,
    run,
    tune,
)
from keras_gpukit.cli.command_line import Parser, ValueFlags, split, value_flags
from keras_gpukit.version import __version__

GROUPS = {
    "Find out": ("run", "report", "compare", "explain", "tune", "demo"),
    "This machine": ("doctor", "bench"),
    "Memory": ("memory", "batch-size"),
    "Several GPUs and machines": ("launch", "input-service"),
}
"""The commands by what they are for, in the order of the help."""


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command, and returns its exit code; wrong arguments end the process with 2."""
    parser, with_values = parsers()
    given = sys.argv[1:] if argv is None else argv
    if not given:
        parser.print_help()
        return 0
    ours, theirs = split(given, with_values)
    args = argparse.Namespace(func=None, given=given, script_arguments=theirs)
    try:
        parser.parse_args(launch.complete(ours), args)
        code: int = args.func(args)
        if args.func is not run.run:
            sys.stdout.flush()
    except KeyboardInterrupt:
        if args.func is run.run:
            raise  # it is for the script: Python prints it, and ends the process by the signal
        return 130  # the exit code of an interrupted command in shells
    except BrokenPipeError:  # the program that reads the output, such as `head`, has ended
        if args.func is run.run:
            raise
        # What is left in the buffer would be written as Python ends, and fail again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141  # 128 plus the number of SIGPIPE; 1 has a meaning of its own
    return code


def parsers() -> tuple[argparse.ArgumentParser, dict[str, ValueFlags]]:
    """Returns the parser, and for each command that runs a script, its flags with a value."""
    parser = Parser(
        prog="keras-gpukit",
        usage="keras-gpukit COMMAND [OPTION ...]",
        description="Find out why Keras training is slow, and set up its GPUs.\n\n"
        "To start:\n  keras-gpukit run train.py",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"keras-gpukit {__version__}")
    subparsers = parser.add_subparsers(
        metavar="COMMAND", required=True, help=argparse.SUPPRESS, prog="keras-gpukit"
    )
    # Each command imports what it needs when it runs, so that --help is quick.
    for command in (run, report, compare, tune, demo, machine, launch):
        command.add_parser(subparsers)
    parser.epilog = _in_groups(subparsers)
    run_a_script = ("run", "launch", "memory", "batch-size", "tune")
    return parser, {name: value_flags(subparsers.choices[name]) for name in run_a_script}


def _in_groups(subparsers: Any) -> str:
    """Returns the list of commands for the help; argparse has no groups of them."""
    helps = {action.dest: action.help for action in subparsers._choices_actions}
    width = max(get_terminal_size().columns - 2, 40)
    lines = []
    for title, names in GROUPS.items():
        lines += [f"{title}:"]
        for name in names:
            text = textwrap.wrap(helps[name], width - 17)
            lines += [f"  {name:<15}{text[0]}", *(f"{'':17}{line}" for line in text[1:])]
        lines += [""]
    return "\n".join([*lines, "keras-gpukit COMMAND --help explains a command."])
