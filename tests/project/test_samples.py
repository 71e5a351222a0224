"""What pages show as printed is in the words that the code prints today.

Samples are real outputs, and sentences change. Between two values of a sample's sentence, all but
a few words must stand in a row in one of the package's texts; what is left over are names of the
script's code, or the seam of two texts.
"""

import ast
import re
from functools import cache

import pytest
from helpers.docs_code import PAGES, ROOT

from keras_gpukit.rules.reference import filled

RULES = filled((ROOT / "docs" / "reference" / "rules.md").read_text("utf-8"))
BLOCK = re.compile(r"^ *```[^\n]*\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
PRINTED = re.compile(r"^[│ ]*(Verdict|[\d.]+× (?:faster|slower)|No GPU is used)\b", re.MULTILINE)
LABEL = re.compile(r"\b(?:Verdict|Why|Next|Also:)(?: +|$)")
ROW = re.compile(r"(ok|missing|broken|set) ")
"""A row of `doctor`."""
NAMES = (
    "augment|decay|dense|fetch|follow|load|multi head attention|the bias gradient|"
    "first one|from the start|this process|validating"
)
"""Functions, arguments and layers of the scripts in samples, and words that sentences vary."""
ENDS = re.compile(
    rf"(?<=[.:;,]) | - |\n|\{{.*?\}}|\b(?:{NAMES})\b|"
    r"[+-]?\d[\d.,]*×? ?(?:ms|s|µs|min|%|MB|GB|MiB)?(?!\w)"
)
"""Ends of sentences, and values."""
WORD = re.compile(r"(?<![\w./(=-])[A-Za-z][a-z]*(?![\w(/]|[.=]\w)")
"""A word of a sentence, and not a name of code, an argument, a path."""
LEFT_OVER = 2


@cache
def printed_rows() -> frozenset[tuple[str, ...]]:
    """All rows of words in the package's strings, without its docstrings."""
    found = set()
    for path in (ROOT / "keras_gpukit").rglob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        said = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        for node in ast.walk(tree):
            is_text = isinstance(node, ast.Constant) and isinstance(node.value, str)
            if is_text and id(node) not in said:
                for part in ENDS.split(node.value):
                    words = WORD.findall(part)
                    for start in range(len(words)):
                        found.update(tuple(words[start:end]) for end in range(len(words) + 1))
    return frozenset(found)


def left_over(part: str) -> int:
    """How many words of a part of a sentence are not in the longest row that is printed."""
    words = WORD.findall(part)
    spans = [(end - start, start, end) for end in range(len(words) + 1) for start in range(end)]
    longest = max((n for n, a, b in spans if tuple(words[a:b]) in printed_rows()), default=0)
    return len(words) - longest


def parts(block: str) -> list[str]:
    """What is between the values of a panel's sentences, wrapped lines joined."""
    lines = (line.strip("│╭╮╰╯─ ") for line in block.splitlines() if not line.startswith("$ "))
    lines = (f". {line}" if ROW.match(line) else line for line in lines)
    text = " ".join(line for line in lines if line)
    return [each for sentence in LABEL.split(text) for each in ENDS.split(sentence)]


SAMPLES = [
    pytest.param(block, id=f"{page.relative_to(ROOT)}-{number}")
    for page in PAGES
    for number, block in enumerate(BLOCK.findall(page.read_text(encoding="utf-8")))
    if PRINTED.search(block)
]


TABLES = [  # what a verdict says, in the rows of the first screens and of the rules
    *re.findall(r"^\| [^|`]+ \| `([^`|]+)`.* \|.*\|$", PAGES[0].read_text("utf-8"), re.MULTILINE),
    *re.findall(r"^\| \[`.*?\) \| (.+?) \|", RULES, re.MULTILINE),
]


@pytest.mark.parametrize("block", SAMPLES)
def test_a_sample_has_the_words_that_are_printed_today(block):
    assert [each for each in parts(block) if left_over(each) > LEFT_OVER] == []


def test_rows_of_tables_have_the_words_that_are_printed_today():
    assert len(TABLES) > 55
    stale = {row for row in TABLES for part in parts(row) if left_over(part) > LEFT_OVER}
    assert stale == set()


def test_words_that_no_code_prints_are_seen():
    assert left_over(" % of the time goes to waiting for the data") > LEFT_OVER
