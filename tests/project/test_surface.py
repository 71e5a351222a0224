"""All that users' code, scripts and files rely on: nothing of it may come or go unnoticed.

`surface.json` lists it. After a deliberate change: `python tests/project/test_surface.py`. A new
rule need not be listed before a release, since its class, page and tests already say its id.
"""

import argparse
import dataclasses
import json
import re
import types
import typing
from pathlib import Path

import pytest

import keras_gpukit
from keras_gpukit.cli.main import parsers
from keras_gpukit.records import Report
from keras_gpukit.rules.verdict import RULES

LISTED = Path(__file__).with_name("surface.json")
ROOT = Path(__file__).parents[2]


def commands():
    parser, _ = parsers()
    [subparsers] = [
        action for action in parser._actions if isinstance(action, argparse._SubParsersAction)
    ]
    return [
        f"{name} {flag}"
        for name, command in subparsers.choices.items()
        for action in command._actions
        for flag in action.option_strings or [action.dest]
    ]


def fields(kind, path=""):
    """Paths of the fields in the JSON of a record, whatever its classes are called."""
    if dataclasses.is_dataclass(kind):
        hints = typing.get_type_hints(kind)
        for field in dataclasses.fields(kind):
            yield f"{path}.{field.name}".lstrip(".")
            yield from fields(hints[field.name], f"{path}.{field.name}")
    elif isinstance(kind, types.UnionType) or typing.get_origin(kind) is not None:
        for inner in typing.get_args(kind):
            yield from fields(inner, path)


def sections():
    folder = ROOT / "keras_gpukit/reports/html"
    pages = "".join(page.read_text(encoding="utf-8") for page in sorted(folder.glob("*.j2")))
    return re.findall(r"<h[1-6][^>]*>([A-Z][^<{]+)</h", pages)


def tags():
    page = (ROOT / "docs/reference/records.md").read_text(encoding="utf-8")
    return re.findall(r"^\| `([^`]+)`", page, flags=re.MULTILINE)


SURFACE = {
    "names": lambda: keras_gpukit.__all__,
    "commands": commands,
    "rules": lambda: [rule.code for rule in RULES],
    "fields": lambda: fields(Report),
    "sections": sections,
    "tags": tags,
}


@pytest.mark.parametrize("part", SURFACE)
def test_what_users_rely_on_is_what_is_listed(part):
    listed = json.loads(LISTED.read_text(encoding="utf-8"))[part]
    found = set(SURFACE[part]())
    changed = set(listed) - found if part == "rules" else set(listed) ^ found
    assert not changed, "if that is meant, run python tests/project/test_surface.py"


if __name__ == "__main__":
    found = {part: sorted(set(listing())) for part, listing in SURFACE.items()}
    LISTED.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
