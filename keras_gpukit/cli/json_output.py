"""`--json` of the commands, and `--json-schema`, the JSON Schema of what it prints."""

from __future__ import annotations

import argparse
from importlib import import_module
from typing import Any

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
