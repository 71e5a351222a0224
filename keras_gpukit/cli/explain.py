"""`keras-gpukit explain`: prints a rule, from the page of the documentation."""

from __future__ import annotations

import argparse
import re
from pathlib import Path
from typing import Any

from keras_gpukit.arguments import likely
from keras_gpukit.cli.command_line import fail

_PACKAGE = Path(__file__).parents[1]
PAGES = (_PACKAGE.parent / "docs" / "reference" / "rules.md", _PACKAGE / "rules.md")
"""The page in a clone, and its copy in a wheel (`force-include` in pyproject.toml)."""
_ROW = re.compile(r"^\| \[`([a-z0-9-]+)`\]\(#\1\) \| (.+?) \| (.+) \|$", re.MULTILINE)
_SECTION = re.compile(r"^## ([a-z0-9-]+)\n(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\[([^\]]*)\]\((?!https?://)[^)]*\)")
"""A link within the documentation, which leads nowhere from a terminal."""


def add_parser(subparsers: Any) -> None:
    """Adds the command to the `keras-gpukit` parser."""
    parser = subparsers.add_parser(
        "explain",
        help="print what a verdict's code means, its thresholds and what to do",
        description="Prints a rule: what it looks at, its threshold and where that comes from, "
        "what it promises to save, and what to do. Without a code, it lists all rules.",
    )
    parser.add_argument(
        "code", metavar="CODE", nargs="?", help="in parentheses in a verdict, such as input-bound"
    )
    parser.set_defaults(func=run)


def run(args: argparse.Namespace) -> int:
    """Prints a rule, or the list of rules."""
    from rich.console import Group
    from rich.markdown import Markdown

    from keras_gpukit.reports.terminal import plain, print_anywhere, table

    page = next((each for each in PAGES if each.is_file()), None)
    if page is None:
        return fail("explain", "this installation lacks the page with the rules")
    source = page.read_text(encoding="utf-8")
    text = _LINK.sub(r"\1", source).replace("\r\n", "\n")
    says = {code: (words, to_do) for code, words, to_do in _ROW.findall(source)}
    if args.code is None:
        rows = [(code, words) for code, (words, _) in says.items()]
        print_anywhere(table(rows, ("code", "says, such as")))
        return 0
    code = args.code.strip("()")
    section = dict(_SECTION.findall(text)).get(code)
    if section is None:
        hint = f"; {close}" if (close := likely(code, says)) else "."
        listed = "`keras-gpukit explain` lists all rules"
        return fail("explain", f"there is no rule {code!r}{hint} {listed}")
    words, to_do = says[code]
    heading = plain(f"{code}: {words}", "bold")
    first = Markdown(f"First thing to do: {to_do}")
    print_anywhere(Group(heading, first, plain(""), Markdown(section.strip())))
    return 0
