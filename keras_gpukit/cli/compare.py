"""`keras-gpukit compare`: what became slower or faster from one run to another, and why."""

from __future__ import annotations

import argparse
import glob
import sys
from dataclasses import replace
from fnmatch import fnmatch
from pathlib import Path
from typing import TYPE_CHECKING, Any

from keras_gpukit.cli.command_line import add_json_flags, fail, path, print_json, written_file

if TYPE_CHECKING:
    from keras_gpukit.records.comparison import FailCondition, RunComparison
    from keras_gpukit.records.report import RunReport

FAILED, UNKNOWN = 1, 3
"""Exit codes: a condition is met; a figure of a condition is unknown or, strictly, inconclusive."""
_STYLES = {"better": "green", "worse": "bold red"}
_HEADLINES = {"good": "bold green", "warning": "bold red", "info": "bold", "unknown": "bold yellow"}


def add_parser(subparsers: Any) -> None:
    """Adds the command to the `keras-gpukit` parser."""
    parser = subparsers.add_parser(
        "compare",
        help="compare two runs: what became slower or faster, and why",
        description="Compares two recorded runs: figures with 95 % intervals from the runs' own "
        "windows, settings, the input pipeline stage by stage, memory, placement and layers. Exits "
        "with 1 if a condition of --fail-on is met, with 3 if its figure is unknown or, with "
        "--strict, if it is inconclusive, and with 2 if a run is missing.",
    )
    run_help = (
        "log folder of a run; LOGDIR#NAME is one of several in a folder, and a quoted pattern such "
        'as "logs/main-*" all repeats of a run'
    )
    parser.add_argument(
        "run_a", metavar="RUN_A", type=_run, help=f"the run to compare with: {run_help}"
    )
    parser.add_argument(
        "run_b", metavar="RUN_B", type=_run, nargs="?", help="the run that may be slower or faster"
    )
    parser.add_argument("more", nargs="*", help=argparse.SUPPRESS)
    parser.add_argument(
        "--fail-on",
        action="append",
        default=[],
        type=_condition,
        metavar="CONDITION",
        help='such as "step_time>+10%%" or "examples_per_s<-5%%"; may be given several times',
    )
    parser.add_argument(
        "--strict", action="store_true", help="exit with 3 also if a condition is inconclusive"
    )
    how = parser.add_mutually_exclusive_group()
    add_json_flags(how, "compare", "write JSON instead of text")
    how.add_argument("--markdown", action="store_true", help="write Markdown instead of text")
    parser.add_argument(
        "--junit", metavar="FILE", type=written_file, help="also write the conditions as JUnit XML"
    )
    parser.set_defaults(func=run)


def _run(text: str) -> str:
    path(text)
    return text


def _condition(text: str) -> FailCondition:
    from keras_gpukit.rules.comparing.compare import parse_condition

    try:
        return parse_condition(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def run(args: argparse.Namespace) -> int:
    """Prints the comparison."""
    from keras_gpukit.rules.comparing.compare import compare_runs, judge_condition
    from keras_gpukit.whole_files import replace_file

    if args.run_b is None:
        return fail("compare", f"give two runs; `keras-gpukit report {args.run_a}` shows one")
    if args.more:
        error = ValueError(
            f"compares two runs, and received {2 + len(args.more)}; patterns of repeated runs need "
            'quotes: "logs/main-*" "logs/branch-*"'
        )
        return fail("compare", error)
    try:
        run_a = _one_fit(args.run_a)
        run_b = _one_fit(args.run_b, like=run_a.rpartition("#")[2])
        a, b = _shortened(run_a, run_b)
        compared = compare_runs(_read_runs(run_a), _read_runs(run_b))
        conditions = [judge_condition(condition, compared) for condition in args.fail_on]
        compared = replace(compared, a=a, b=b, conditions=tuple(conditions))
        if args.junit is not None:
            replace_file(args.junit, _junit(compared).encode())
    except (OSError, ValueError) as error:
        return fail("compare", error)
    _print(compared, args)
    states = [condition.is_met for condition in conditions]
    open_ = args.strict and any(condition.is_inconclusive for condition in conditions)
    return FAILED if True in states else UNKNOWN if None in states or open_ else 0


def _one_fit(text: str, like: str = "") -> str:
    """Returns LOGDIR#NAME for the folder of a script with several fits, else the argument.

    It is the fit called `like`, else the one that stands for the script.
    """
    from keras_gpukit.saved_runs.log_folder import load_report, main_run

    report = load_report(text) if Path(text).is_dir() else None
    if report is None or report.script is None:
        return text
    fits = [run for run in report.runs if run.is_chief and run.phase == "fit"]
    if len(fits) < 2:
        return text
    names = {fit.name for fit in fits}
    return f"{text}#{like if like in names else main_run(fits)[0].name}"


def _shortened(a: str, b: str) -> tuple[str, str]:
    """Returns the names of two runs without the folders that both are in."""
    ours, theirs = list(Path(a).parts), list(Path(b).parts)
    while min(len(ours), len(theirs)) > 1 and ours[0] == theirs[0]:
        del ours[0], theirs[0]
    from keras_gpukit.records.names import readable

    return readable(Path(*ours)), readable(Path(*theirs))


def _read_runs(text: str) -> list[RunReport]:
    """Reads the run that an argument names, or those that its pattern matches: repeats of one.

    Raises:
        FileNotFoundError: If there is no such folder, or no run in it.
        ValueError: If a folder has several runs, or none of that name.
    """
    if Path(text).exists():
        return _runs_in(Path(text))
    folder, _, name = text.rpartition("#")
    folder, name = (folder, name) if folder else (text, "")
    if Path(folder).exists() or not glob.has_magic(text):
        return _runs_in(Path(folder), name)
    for pattern, named in ((text, ""), (folder, name)):  # names of folders may have a "#", too
        if folders := [Path(path) for path in sorted(glob.glob(pattern)) if Path(path).is_dir()]:
            return [run for log_dir in folders for run in _runs_in(log_dir, named)]
    raise FileNotFoundError(f"No folder matches {folder}")


def _runs_in(log_dir: Path, name: str = "") -> list[RunReport]:
    """Returns the run of that name, or all that match if it is a pattern."""
    from keras_gpukit.saved_runs.log_folder import load_report

    runs = [run for run in load_report(log_dir).runs if run.is_chief]
    if not runs:
        raise ValueError(f"No run in {log_dir} has recorded anything yet")
    # Evaluations and predictions are seldom what is compared.
    found = fits = [run for run in runs if run.phase == "fit"] or runs
    if name:
        names = (name, f"{log_dir.name} #{name}")
        found = [run for run in runs if run.name in names] or [
            fit for fit in fits if fnmatch(fit.name, name)
        ]
    known = ", ".join(run.name for run in runs)
    if not found:
        raise ValueError(f"There is no run {name!r} under {log_dir}; runs: {known}")
    if len(found) > 1 and not glob.has_magic(name):
        raise ValueError(
            f"{log_dir} has {len(found)} runs; give the folder of one or {log_dir}#NAME, or all "
            f'repeats of one as "{log_dir}#*". Runs: {known}'
        )
    return [_in_full(run, log_dir) for run in found]


def _in_full(run: RunReport, log_dir: Path) -> RunReport:
    """Reads a run again from its own folder if it is not among the newest, which are in full."""
    from keras_gpukit.saved_runs.log_folder import load_report

    if run.has_time_series:
        return run
    own = load_report(log_dir / run.folder).runs
    return next((candidate for candidate in own if candidate.began_s == run.began_s), run)


def _print(compared: RunComparison, args: argparse.Namespace) -> None:
    from keras_gpukit.reports import comparison

    if args.json:
        print_json(compared)
    elif args.markdown:
        sys.stdout.write(comparison.markdown(compared) + "\n")
    else:
        _print_text(compared)


def _print_text(compared: RunComparison) -> None:
    from rich.console import Group

    from keras_gpukit.reports import comparison
    from keras_gpukit.reports.terminal import plain, print_anywhere, table

    severity, text = comparison.headline(compared)
    parts: list[Any] = [plain(text, _HEADLINES[severity])]
    parts += [plain(f"- {reason}") for reason in comparison.reasons(compared)]
    for title, contents in comparison.tables(compared):
        parts += [plain(f"\n{title}", "bold")]
        if contents.rows:
            *columns, last = zip(*contents.rows, strict=True)
            marked = [plain(cell, _STYLES.get(cell, "")) for cell in last]
            parts.append(table(zip(*columns, marked, strict=True), contents.columns))
        parts += [plain(contents.note)] if contents.note else []
    parts += [plain("")] if compared.conditions else []
    for condition in compared.conditions:
        style = "bold red" if condition.is_met else ""
        parts.append(plain(comparison.condition_line(condition, compared), style))
    print_anywhere(Group(*parts))


def _junit(compared: RunComparison) -> str:
    """Returns the conditions as JUnit XML, which CI systems show as tests: one test case for each.

    It is a failure if the condition is met, an error if it is unknown, skipped if inconclusive.
    """
    from xml.etree import ElementTree

    from keras_gpukit.reports import comparison
    from keras_gpukit.reports.units import printable

    states = [condition.is_met for condition in compared.conditions]
    suite = ElementTree.Element(
        "testsuite",
        name="keras-gpukit compare",
        tests=str(len(states)),
        failures=str(states.count(True)),
        errors=str(states.count(None)),
        skipped=str(sum(condition.is_inconclusive for condition in compared.conditions)),
    )
    why = "\n".join((comparison.headline(compared)[1], *comparison.reasons(compared)))
    for condition in compared.conditions:
        name = f"{compared.a} → {compared.b}"
        names = {"classname": printable(name), "name": printable(condition.expression)}
        case = ElementTree.SubElement(suite, "testcase", names, time="0")
        line = comparison.condition_line(condition, compared)
        if condition.is_met is not False or condition.is_inconclusive:
            tags = {None: "error", True: "failure", False: "skipped"}
            made = ElementTree.SubElement(case, tags[condition.is_met], message=printable(line))
            made.text = printable(why)
    suites = ElementTree.Element("testsuites")
    suites.append(suite)
    ElementTree.indent(suites)
    text = ElementTree.tostring(suites, encoding="unicode")
    return f'<?xml version="1.0" encoding="utf-8"?>\n{text}\n'
