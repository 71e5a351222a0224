"""Fills in, when the site is built, what the code and the results of benchmarks already say.

`{{ overhead: variants/bare again/ratio_median as .3f }}` is that figure of
`benchmarks/results/overhead.json`, in Python's format; `as len` is how many there are. In a path,
`*` stands for each row: `as true` counts those in which it holds, `as known` those that know.
Rules and their thresholds are filled in by `keras_gpukit.rules.reference`, as for `explain`.
"""

from __future__ import annotations

import argparse
import ast
import itertools
import json
import os
import re
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from unittest.mock import patch

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "benchmarks" / "results"
FIGURE = re.compile(r"\{\{ (\w+): (.+?)(?: as (.+?))? \}\}")


def on_files(files: Files, config: Any) -> Files:
    """Called by mkdocs for the list of files: adds the schema of each command's `--json`."""
    from keras_gpukit.cli.command_line import PRINTED, schema_of

    for command in PRINTED:
        content = json.dumps(schema_of(command), indent=2)
        files.append(File.generated(config, f"reference/{command}.schema.json", content=content))
    return files


def on_page_markdown(markdown: str, page: Any = None, **_: Any) -> str:
    """Called by mkdocs for each page."""
    if page is not None and page.file.src_uri == "reference/rules.md":
        from keras_gpukit.rules.reference import filled

        markdown = filled(markdown)
    for marker, make in MADE.items():
        if marker in markdown:
            markdown = markdown.replace(marker, make())
    return FIGURE.sub(lambda found: figure(*found.groups()), markdown)


def figure(name: str, path: str, form: str | None) -> str:
    """Returns a figure of a results file; a path that does not exist ends the build."""
    value = json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))
    each, _, field = path.partition("/*/")
    for key in each.split("/"):
        value = value[key]
    if field:
        found = [row[field] for row in value.values() if row[field] is not None]
        return str(found.count(True) if form == "true" else len(found))
    if form == "len":
        return str(len(value))
    return f"{value:{form or ''}}".replace("%", " %")


def commands() -> str:
    """Returns the help of each command."""
    from keras_gpukit.cli.main import parsers

    parser, _ = parsers()
    [subparsers] = [
        each for each in parser._actions if isinstance(each, argparse._SubParsersAction)
    ]
    with patch.dict(os.environ, COLUMNS="74"):  # the width of the column on the site
        sections = [f"```text\n{parser.format_help()}```"]
        for name, command in subparsers.choices.items():
            sections.append(f"## {name}\n\n```text\n{command.format_help()}```")
    return "\n\n".join(sections)


def environment() -> str:
    """Returns a table of each group of environment variables."""
    from keras_gpukit.records.names import GROUPS
    from keras_gpukit.rules.setup.slowing_settings import SETTINGS

    groups = {
        **GROUPS,
        "Named in a verdict if they slow a run": {
            name: setting.does for name, setting in SETTINGS.items() if name.isupper()
        },
    }
    return "\n\n".join(f"## {title}\n\n{table(group)}" for title, group in groups.items())


def cluster_variables() -> str:
    """Returns the table of those that a user can set."""
    from keras_gpukit.records.names import YOURS

    return table(YOURS)


def table(meanings: Mapping[str, str]) -> str:
    """Returns a table of names and meanings."""
    rows = (f"| `{name}` | {meaning} |" for name, meaning in meanings.items())
    return "\n".join(("| variable | meaning |", "|---|---|", *rows))


def results() -> str:
    """Returns a section for each results file: what was measured, how, where and when."""
    measured = last_changes()
    return "\n\n".join(
        result(path, measured.get(f"benchmarks/results/{path.name}", "not committed yet"))
        for path in sorted(RESULTS.glob("*.json"))
    )


def result(path: Path, when: str) -> str:
    """Returns the section of one results file."""
    saved = json.loads(path.read_text(encoding="utf-8"))
    about = saved.get("about")
    if about is None:
        script = (ROOT / saved["command"].split()[1]).read_text(encoding="utf-8")
        about = " ".join((ast.get_docstring(ast.parse(script)) or "").split("\n\n")[0].split())
    else:  # the script of a study that is not repeated is only where its result was made
        when = f"at commit {saved['commit']}, {saved['measured']}"
    machine = saved["machine"]
    versions = ", ".join(f"{name} {version}" for name, version in saved["versions"].items())
    return (
        f"### {path.name}\n\n{about}\n\n"
        f"`{saved['command']}`, {when}, on {machine['processor']} with {machine['cores']} cores "
        f"and {'a' if machine['gpus'] else 'no'} GPU; {versions}."
    )


def skill() -> str:
    """Returns the skill for coding agents, to be read and copied."""
    text = (ROOT / "skills" / "keras-gpukit" / "SKILL.md").read_text(encoding="utf-8")
    return f"````markdown\n{text}````"


def last_changes() -> dict[str, str]:
    """Returns the day and the commit that last changed each results file; {} outside of git."""
    log = subprocess.run(
        ["git", "log", "--format=%cs, commit %h", "--name-only", "--", str(RESULTS)],
        cwd=ROOT,
        capture_output=True,
        text=True,
    ).stdout
    changes: dict[str, str] = {}
    when = ""
    for line in log.splitlines():
        if ", commit " in line:
            when = line
        elif line:
            changes.setdefault(line, when)
    return changes


def thresholds() -> str:
    """Returns a table of all constants of the package whose docstring says "our choice"."""
    rows = [
        f"| `{name}` in `{path.relative_to(ROOT).as_posix()}` | `{value}` | {why} |"
        for path in sorted((ROOT / "keras_gpukit").rglob("*.py"))
        for name, value, why in _chosen(path)
    ]
    return "\n".join(("| constant | value | what it is |", "|---|---|---|", *rows))


def _chosen(path: Path) -> Iterator[tuple[str, str, str]]:
    body = ast.parse(path.read_text(encoding="utf-8")).body
    for constant, said in itertools.pairwise(body):
        if not isinstance(constant, (ast.Assign, ast.AnnAssign)) or constant.value is None:
            continue
        match said:
            case ast.Expr(ast.Constant(str(about))) if "our choice" in about.lower():
                named = constant.targets[0] if isinstance(constant, ast.Assign) else constant.target
                yield ast.unparse(named), ast.unparse(constant.value), " ".join(about.split())


MADE = {
    "<!-- thresholds -->": thresholds,
    "<!-- commands -->": commands,
    "<!-- environment -->": environment,
    "<!-- cluster variables -->": cluster_variables,
    "<!-- results -->": results,
    "<!-- skill -->": skill,
}
