"""`keras-gpukit report` and `explain`: saved runs as a page or JSON, and the rules behind it."""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from keras_gpukit.arguments import likely
from keras_gpukit.cli.command_line import add_json_flags, fail, path, written_file
from keras_gpukit.whole_files import replace_file

if TYPE_CHECKING:  # loads msgspec, which a script that `run` runs would see
    from keras_gpukit.records.report import Report

_OURS = (b'<meta name="generator" content="keras_gpukit', b'{"log_dir":')
_HEAD_BYTES = 2000


def add_parser(subparsers: Any) -> None:
    """Adds both commands to the `keras-gpukit` parser."""
    _add_report(subparsers)
    _add_explain(subparsers)


def _add_report(subparsers: Any) -> None:
    parser = subparsers.add_parser(
        "report",
        help="make one HTML page of the runs in a log folder",
        description="Reads the runs under a log folder, including unfinished ones, and writes the "
        "verdict with charts as one HTML file that works offline. Exits with 2 if there is no run.",
    )
    parser.add_argument(
        "log_dir",
        metavar="LOGDIR",
        type=path,
        help="a run's log folder, or a folder above several",
    )
    parser.add_argument(
        "--out",
        metavar="FILE",
        type=written_file,
        help="file to write (default: report.html, or standard output with --json)",
    )
    add_json_flags(parser, "report", "write JSON instead of HTML")
    parser.set_defaults(func=run)


def run(args: argparse.Namespace) -> int:
    """Reads the runs and writes the report."""
    # `keras-gpukit run` loads this module too: the script must not find `rich` loaded.
    from keras_gpukit.reports.console import print_summary
    from keras_gpukit.reports.html import render
    from keras_gpukit.reports.run_words import verdict_lines
    from keras_gpukit.rules.verdict import of_profile
    from keras_gpukit.saved_runs.log_folder import load_report

    try:
        report = load_report(args.log_dir)
        if args.json and args.out is None:
            sys.stdout.write(_json(report) + "\n")
            return 0
        out = args.out or Path("report.html")
        _write(out, _json(report) if args.json else render(report))
    except BrokenPipeError:
        raise
    except OSError as error:
        return fail("report", error)
    for line in verdict_lines(report):
        print(line)
    newest = report.newest_profile
    if newest is not None and newest.profile is not None:
        print_summary(of_profile(newest.profile), title=f"keras-gpukit, profile {newest.name}")
    print(f"Written to {out}")
    return 0


def _json(report: Report) -> str:
    import msgspec

    return msgspec.json.encode(report).decode()


def _write(out: Path, text: str) -> None:
    """Writes the file completely or not at all; never overwrites a file that is not a report."""
    if out.exists() and not out.is_file():
        # Writing would replace a device or a pipe by a file, and reading it could block.
        raise FileExistsError(f"{out} is not a regular file; give another --out.")
    if out.exists() and not _is_ours(out):
        raise FileExistsError(f"{out} already exists and is not a report; give another --out.")
    replace_file(out, text.encode("utf-8"))


def _is_ours(path: Path) -> bool:
    with path.open("rb") as file:
        head = file.read(_HEAD_BYTES)
    return not head or any(mark in head for mark in _OURS)


_PACKAGE = Path(__file__).parents[1]
PAGES = (_PACKAGE.parent / "docs" / "reference" / "rules.md", _PACKAGE / "rules.md")
"""The page's prose in a clone, and its copy in a wheel (`force-include` in pyproject.toml)."""
_ROW = re.compile(r"^\| \[`([a-z0-9-]+)`\]\(#\1\) \| (.+?) \| (.+) \|$", re.MULTILINE)
_LINK = re.compile(r"\[([^\]]*)\]\((?!https?://)[^)]*\)")
"""A link within the documentation, which leads nowhere from a terminal."""


def _add_explain(subparsers: Any) -> None:
    parser = subparsers.add_parser(
        "explain",
        help="print what a verdict's code means, its thresholds and what to do",
        description="Prints a rule: what it looks at, its threshold and where that comes from, "
        "what it promises to save, and what to do. Without a code, it lists all rules.",
    )
    parser.add_argument(
        "code", metavar="CODE", nargs="?", help="in parentheses in a verdict, such as input-bound"
    )
    parser.set_defaults(func=explain)


def explain(args: argparse.Namespace) -> int:
    """Prints a rule, or the list of rules."""
    from rich.console import Group
    from rich.markdown import Markdown

    from keras_gpukit.reports.terminal import plain, print_anywhere, table
    from keras_gpukit.rules.reference import SECTION, filled

    page = next((path for path in PAGES if path.is_file()), None)
    if page is None:
        return fail("explain", "this installation lacks the page with the rules")
    source = filled(page.read_text(encoding="utf-8").replace("\r\n", "\n"))
    text = _LINK.sub(r"\1", source)
    says = {code: (words, to_do) for code, words, to_do in _ROW.findall(source)}
    if args.code is None:
        rows = [(code, words) for code, (words, _) in says.items()]
        print_anywhere(table(rows, ("code", "says, such as")))
        return 0
    code = args.code.strip("()")
    section = dict(SECTION.findall(text)).get(code)
    if section is None:
        hint = f"; {close}" if (close := likely(code, says)) else "."
        listed = "`keras-gpukit explain` lists all rules"
        return fail("explain", f"there is no rule {code!r}{hint} {listed}")
    words, to_do = says[code]
    heading = plain(f"{code}: {words}", "bold")
    first = Markdown(f"First thing to do: {to_do}")
    print_anywhere(Group(heading, first, plain(""), Markdown(section.strip())))
    return 0
