"""Arguments that several commands share, `--json`, and a terminal without TensorFlow's log."""

from __future__ import annotations

import argparse
import os
import re
import sys
import tempfile
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn

from keras_gpukit.arguments import likely

ValueFlags = Mapping[str, Collection[str] | None]
"""Flags that are followed by a value, each with the values it accepts; None for any value."""


class Parser(argparse.ArgumentParser):
    """A parser that names the flag or command that was likely meant.

    An unknown flag of a command is that command's error, with its usage.
    """

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parses arguments, and ends with an error if one is unknown."""
        found, unknown = super().parse_known_args(args, namespace)
        if unknown:
            self.error(f"unrecognized arguments: {' '.join(unknown)}")
        return found, unknown

    def error(self, message: str) -> NoReturn:
        """Ends the process with 2 and the message, with a suggestion if a known word is close."""
        known: list[str] = []
        if wrong := re.search(r"invalid choice: '([^']+)'(.*)", message):
            known = re.findall(r"[\w-]+", wrong[2].replace("choose from", ""))
        elif wrong := re.search(r"unrecognized arguments: (--[\w-]+)", message):
            known = [flag for action in self._actions for flag in action.option_strings]
        hint = likely(wrong[1], known) if wrong else ""
        super().error(f"{message}; {hint}" if hint else message)


def split(
    argv: Sequence[str], value_flags: Mapping[str, ValueFlags]
) -> tuple[list[str], list[str]]:
    """Splits the command line after SCRIPT or `-m MODULE`, if its command runs a script.

    All that follows belongs to the script, whatever it looks like. argparse would remove a "--"
    from it.
    """
    flags = value_flags.get(argv[0] if argv else "")
    if flags is None:
        return list(argv), []
    at = 1
    while at < len(argv):
        word, following = argv[at], "".join(argv[at + 1 : at + 2])
        values = flags.get(word, ())
        at += 2 if values is None or following in values else 1
        if word.startswith("-m") or not word.startswith("-"):
            return list(argv[:at]), list(argv[at:])
    return list(argv), []


def value_flags(parser: argparse.ArgumentParser) -> ValueFlags:
    """Returns the flags that are followed by a value; argparse has no public list of its flags.

    If a flag's value is optional, a word after the flag is its value only if it is among the flag's
    choices. Any other word is the script.
    """
    return {
        flag: None if action.nargs is None else tuple(action.choices or ())
        for action in parser._actions
        if action.nargs in (None, "?")
        for flag in action.option_strings
    }


def add_command(
    subparsers: Any,
    name: str,
    run: Callable[[argparse.Namespace], int],
    *,
    script: str = "a Python file, or a folder with __main__.py",
    **options: str,
) -> argparse.ArgumentParser:
    """Adds a command that runs a script, or a module, and returns its parser."""
    parser: argparse.ArgumentParser = subparsers.add_parser(name, allow_abbrev=False, **options)
    parser.add_argument("script", metavar="SCRIPT", nargs="?", help=script)
    parser.add_argument("-m", dest="module", metavar="MODULE", help="a module, as in python -m")
    parser.set_defaults(func=run, error=parser.error)
    return parser


def check_script(args: argparse.Namespace) -> None:
    """Exits with an error if neither a script nor a module is given."""
    if not args.script and not args.module:
        args.error("give the SCRIPT to run, or -m MODULE")


def fail(command: str, why: object, *, code: int = 2) -> int:
    """Prints why a command fails, and returns its exit code."""
    print(f"keras-gpukit {command}: {why}", file=sys.stderr)
    return code


def positive(text: str) -> int:
    """Parses a whole number from 1 on."""
    number = int(text) if text.isdecimal() else 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"must be a whole number from 1 on, and is {text!r}")
    return number


def above_0(text: str) -> float:
    """Parses a number above 0."""
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0 < number < float("inf"):
        raise argparse.ArgumentTypeError(f"must be a number above 0, and is {text!r}")
    return number


def path(text: str) -> Path:
    """Parses a path."""
    if not text:
        raise argparse.ArgumentTypeError("the path is empty")
    return Path(text)


def written_file(text: str) -> Path:
    """Parses the path of a file to write, whose folder must exist."""
    file = path(text)
    if file.is_dir():
        raise argparse.ArgumentTypeError(f"{text} is a folder; give a file")
    if not file.parent.is_dir():
        raise argparse.ArgumentTypeError(f"the folder {file.parent} does not exist")
    return file


def folder(text: str) -> Path:
    """Returns a folder's path; the folder need not exist."""
    if not text:
        raise argparse.ArgumentTypeError("the folder's name is empty")
    at = Path(text).expanduser()
    if at.exists() and not at.is_dir():
        raise argparse.ArgumentTypeError(f"{text} is not a folder")
    return Path(text)


PRINTED = {
    "report": ("keras_gpukit.records.report", "Report"),
    "compare": ("keras_gpukit.records.comparison", "RunComparison"),
    "doctor": ("keras_gpukit.cli.examination", "DoctorFindings"),
    "bench": ("keras_gpukit.records.report", "MachineBenchmark"),
    "tune": ("keras_gpukit.records.tuning", "SpeedupSearch"),
}
"""For each command with `--json`, the class of what it prints."""


def add_json_flags(arguments: Any, command: str, described: str) -> None:
    """Adds both flags to a parser, or to a group of one.

    Args:
        arguments: The parser or group.
        command: One of `PRINTED`.
        described: Help of `--json`.
    """
    arguments.add_argument("--json", action="store_true", help=described)
    arguments.add_argument(
        "--json-schema",
        action=_PrintSchema,
        nargs=0,
        const=command,
        default=argparse.SUPPRESS,
        help="print the JSON Schema of --json",
    )


class _PrintSchema(argparse.Action):
    """Prints the schema and ends, as `--help` does: without the other arguments."""

    def __call__(self, parser: argparse.ArgumentParser, *args: Any) -> None:
        import json

        print(json.dumps(schema_of(self.const), indent=2))
        parser.exit()


def schema_of(command: str) -> dict[str, Any]:
    """Returns the JSON Schema of what a command prints with `--json`."""
    # Imported here: records load msgspec, which a script that `run` runs would see.
    from keras_gpukit.records.codec import json_schema

    module, name = PRINTED[command]
    return json_schema(getattr(import_module(module), name), command)


def print_json(record: Any) -> None:
    """Prints a record."""
    import msgspec

    print(msgspec.json.format(msgspec.json.encode(record), indent=2).decode())


LEVEL = "TF_CPP_MIN_LOG_LEVEL"


@contextmanager
def quiet_tensorflow() -> Iterator[Callable[[], None]]:
    """Turns off TensorFlow's log from now on, unless the user chose a level.

    TensorFlow's libraries log at any level while they load and look for GPUs. So within the
    context, standard error goes to a file, which is shown if an exception leaves the context. With
    level 0 or 1, the user asks for this log, and standard error stays as it is.

    Yields:
        A function that shows what was logged so far.
    """
    if os.environ.setdefault(LEVEL, "3") in ("0", "1"):
        yield lambda: None
        return
    sys.stderr.flush()
    terminal = os.dup(2)
    with tempfile.TemporaryFile() as log:

        def show() -> None:
            log.seek(0)
            os.write(terminal, log.read())

        os.dup2(log.fileno(), 2)
        try:
            yield show
        except BaseException:
            show()
            raise
        finally:
            os.dup2(terminal, 2)
            os.close(terminal)
