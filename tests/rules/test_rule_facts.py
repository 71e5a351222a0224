"""A rule's class says all of its facts: what it measures in sentences, its charts, its remedies."""

import ast
from inspect import getmembers
from pathlib import Path

import pytest

from keras_gpukit import rules
from keras_gpukit.rules import RULES
from keras_gpukit.rules.rule import Measure
from keras_gpukit.rules.speedups import CHANGES


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.code)
def test_a_rule_says_its_sentences_charts_and_remedies(rule):
    measures = dict(getmembers(rule, lambda each: isinstance(each, Measure)))
    assert all(measure.key == name for name, measure in measures.items())
    assert [name for name, each in measures.items() if "{value}" not in each.sentence] == []
    assert isinstance(rule.charts, tuple)  # () says that no chart shows it
    assert set(rule.tried_by) <= set(CHANGES)


def test_all_evidence_comes_from_measures_of_classes():
    outside = []
    for path in Path(rules.__file__).parent.rglob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        classes = [each for each in ast.walk(tree) if isinstance(each, ast.ClassDef)]
        attributes = [each.value for of in classes for each in of.body if hasattr(each, "value")]
        calls = [each for each in ast.walk(tree) if isinstance(each, ast.Call)]
        names = {each: each.func.id for each in calls if isinstance(each.func, ast.Name)}
        made = [each for each in names if names[each] in ("Measure", "Share")]
        figures = [each for each in names if names[each] == "Figure" and path.stem != "rule"]
        outside += [
            f"{path.name}:{each.lineno}" for each in (*made, *figures) if each not in attributes
        ]
    assert outside == []
