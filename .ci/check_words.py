"""Fails on words that the documentation, messages, docstrings and comments should not use.

In the package it also fails on docstrings, and entries of `Args:` and `Attributes:`, that open with
a relative clause or a pronoun ("Of the cluster", "kind: What it is"): a reader needs the noun.

    python .ci/check_words.py

Each line of output has the place, the words found, and what to write instead.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterator
from itertools import product
from pathlib import Path

ROOT = Path(__file__).parent.parent
COVERED = (
    "README.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "mkdocs.yml",
    "Makefile",
    "docs/**/*.md",
    "keras_gpukit/**/*",
    "tests/**/*.py",
    "benchmarks/**/*.py",
    "examples/*",
    "skills/**/*",
    "action.yml",
)
# Scripts as people write them, with what they said.
EXEMPT = {ROOT / "benchmarks" / name for name in ("public_threads", "unseen")}
SUFFIXES = {".md", ".py", ".ipynb", ".js", ".j2", ".css", ".yml", ""}
FORBIDDEN = {
    r"(is|are|was|were|be) told|told (are|is|apart|as)|tells(?!:)": (
        "reports, shows, prints, logs, says"
    ),
    r"h[eo]ld(s|ing)? (\w+ ){0,3}up|stand(s|ing)? in \w+('s)? way": "bottleneck; blocks, limits",
    r"anew": "again, from scratch, rebuilt, restarted",
    r"besides?": "alongside, next to, in addition to",
    r"side by side with": "alongside",
    r"(calls|batches|elements|times|files|threads|replicas) at once|at once \d": (
        "in parallel, at the same time"
    ),
    r"time of (a|each|the) step": "step time",
    r"(the|a|its|no) courses? (of|has|is)|the course": "time series, over time",
    r"(the|their|its|a) spread": "distribution",
    r"\d points|by how many points": "percentage points",
    r"pictures?": "chart, figure, screenshot",
    r"watching cost|costs? of watching|what watching": "overhead",
    r"watches no more": "monitoring is disabled",
    r"mend(s|ed|ing)?|cur(e|es|ed|ing)": "fix",
    r"interpreter's lock|python's lock": "GIL",
    r"who(ever)?|(some|no|any|every)body": "user code, the caller; if someone, if another process",
    r"there is none": "does not work on, is not available for",
    r"of (its|their) own accord|of itself": "on its own, by itself",
    r"begun|took up|taken up": "started, resumed, took",
    r"\d us": "µs",
    r"times as (fast|many)": "up to 3× faster",
    r"to blame": "the bottleneck",
    r"by lot": "at random",
}
# What is code rather than words: a template's tags, a style sheet outside its comments.
CODE = {
    ".j2": re.compile(r"\{%.*?%\}|\{\{.*?\}\}|(class|id)=\"[^\"]*\"", re.DOTALL),
    ".css": re.compile(r"(?:\A|(?<=\*/))(?:(?!/\*).)*", re.DOTALL),
}
PATTERNS = {re.compile(rf"(?<![\w-])({p})(?![\w-])", re.I): b for p, b in FORBIDDEN.items()}

_RELATIVE = "What|Who|Whose|Of|In what|In which|By what|By which|From what|From which|That which"
OPENINGS = dict.fromkeys(
    (
        re.compile(rf"\A({_RELATIVE}|Nothing that|None of) "),
        re.compile(
            rf"^ +`?\w+`?(?: \([^)]*\))?: "
            rf"({_RELATIVE}|That|The same|Likewise|Its|Theirs|As many|How it|Where it) ",
            re.MULTILINE,
        ),
    ),
    "a noun or a verb first",
)


def pieces(path: Path) -> Iterator[tuple[int, str]]:
    """Yields the parts of a file that people read, each with the line it starts on."""
    text = path.read_text(encoding="utf-8")
    if path.suffix != ".py":
        yield 1, CODE.get(path.suffix, re.compile("(?!)")).sub(_blank, text)
        return
    for node in ast.walk(ast.parse(text)):
        # A string without a space is a name, not prose.
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
            yield node.lineno, node.value
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string


def docstrings(path: Path) -> Iterator[tuple[int, str]]:
    """Yields the docstrings of a Python file, also those of attributes, each with its line."""
    if path.suffix != ".py":
        return
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        value = node.value if isinstance(node, ast.Expr) else None
        if isinstance(value, ast.Constant) and isinstance(value.value, str):
            yield value.lineno, value.value


def _blank(match: re.Match[str]) -> str:
    return "\n" * match.group().count("\n")


def main() -> int:
    """Returns 1 if a forbidden word was found, else 0."""
    found = []
    files = {path for pattern in COVERED for path in ROOT.glob(pattern) if path.is_file()}
    files = {path for path in files if EXEMPT.isdisjoint(path.parents)}
    checks = ((pieces, PATTERNS), (docstrings, OPENINGS))
    for path in sorted(path for path in files if path.suffix in SUFFIXES):
        for read, patterns in checks if ROOT / "keras_gpukit" in path.parents else checks[:1]:
            for (first_line, text), (pattern, better) in product(read(path), patterns.items()):
                for match in pattern.finditer(text):
                    line = first_line + text[: match.start()].count("\n")
                    place = f"{path.relative_to(ROOT)}:{line}"
                    found.append(f'{place}: "{match.group().strip()}": write {better}')
    for line_found in found:
        print(line_found, file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
