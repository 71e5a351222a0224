"""Each figure of a finding has its sentence."""

from __future__ import annotations

import ast
from pathlib import Path

from keras_gpukit import rules
from keras_gpukit.reports.evidence import SENTENCES


def test_each_figure_that_a_rule_gives_has_its_sentence():
    given = set()
    for path in Path(rules.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            is_figure = isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
            if is_figure and node.func.id in ("figure", "percent") and node.args:
                given |= {each.value for each in node.args[:1] if isinstance(each, ast.Constant)}
    assert len(given) > 100
    assert sorted(given - SENTENCES.keys()) == []
