"""Code and commands in README and docs run, or at least are what the package has."""

import ast
import inspect
import itertools
import json
import re
import shlex

import pytest
from helpers import prepared
from helpers.docs_code import PAGES, ROOT, blocks
from helpers.processes import TESTS

import keras_gpukit
from keras_gpukit.cli import launch
from keras_gpukit.cli.command_line import split
from keras_gpukit.cli.main import parsers

COMMAND = re.compile(r"^(?:\$ )?(keras-gpukit (?:\\\n|[^\n])*)", re.MULTILINE)
CODE = re.compile(r"^( *)```(?:console)?\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)
ENDS = {"&&", "|", ";", ">"}


@pytest.mark.tensorflow
@pytest.mark.slow
def test_each_block_of_python_runs(tmp_path):
    done = prepared.run(TESTS / "helpers/docs_code.py", folder=tmp_path, timeout=400)
    assert json.loads(done.stdout.splitlines()[-1]) == []


@pytest.mark.tensorflow
@pytest.mark.parametrize(
    "page",
    [*PAGES, *sorted((ROOT / "examples").glob("*.py"))],
    ids=lambda page: str(page.relative_to(ROOT)),
)
def test_code_calls_names_of_the_package_with_its_arguments(page):
    """Also what takes too long to run."""
    markdown = page.suffix == ".md"
    codes = [each.code for each in blocks(page)] if markdown else [page.read_text(encoding="utf-8")]
    for code in codes:
        for node in ast.walk(ast.parse(code)):
            if isinstance(node, ast.Call) and ast.unparse(node.func).startswith("gpukit."):
                called = keras_gpukit
                for name in ast.unparse(node.func).split(".")[1:]:
                    called = getattr(called, name)
                names = [each.arg for each in node.keywords if each.arg]
                inspect.signature(called).bind_partial(*node.args, **dict.fromkeys(names))


def commands():
    for page in PAGES:
        for _, text in CODE.findall(page.read_text(encoding="utf-8")):
            for line in COMMAND.findall(text):
                lexer = shlex.shlex(line.replace("\\\n", " "), posix=True, punctuation_chars=True)
                lexer.whitespace_split = True
                _, *words = itertools.takewhile(lambda word: word not in ENDS, lexer)
                if words and not words[0].endswith(":"):  # a message of the command
                    yield str(page.relative_to(ROOT)), tuple(words)


@pytest.mark.parametrize(("page", "words"), sorted(set(commands())), ids=str)
def test_commands_are_understood(page, words):
    parser, with_values = parsers()
    ours, _ = split(words, with_values)
    try:
        parser.parse_args(launch.complete(ours))
    except SystemExit as ended:  # as --help does, with 0
        if ended.code:
            pytest.fail(f"{page}: {' '.join(words)}")
