"""The `keras-gpukit` command: defines its subcommands, and runs one."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from keras_gpukit.cli import (
    bench,
    compare,
    demo,
    doctor,
    first_fit,
    input_service,
    launch,
    report,
    run,
    tune,
)
from keras_gpukit.cli.command_line import ValueFlags, split, value_flags
from keras_gpukit.version import __version__


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command, and returns its exit code; wrong arguments end the process with 2."""
    parser, with_values = parsers()
    ours, theirs = split(sys.argv[1:] if argv is None else argv, with_values)
    args = argparse.Namespace(func=None, script_arguments=theirs)
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
    parser = argparse.ArgumentParser(
        prog="keras-gpukit",
        description="Find out why Keras training is slow, and set up its GPUs. To start: "
        "keras-gpukit run train.py",
    )
    parser.add_argument("--version", action="version", version=f"keras-gpukit {__version__}")
    subparsers = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    # Each command imports what it needs when it runs, so that --help is quick.
    for command in (
        run,
        launch,
        input_service,
        first_fit,
        tune,
        demo,
        doctor,
        bench,
        report,
        compare,
    ):
        command.add_parser(subparsers)
    run_a_script = ("run", "launch", "memory", "batch-size", "tune")
    return parser, {name: value_flags(subparsers.choices[name]) for name in run_a_script}
