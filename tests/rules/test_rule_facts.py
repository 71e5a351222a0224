"""A rule's class says all of its facts: what it measures in sentences, its charts, its remedies."""

import ast
from inspect import getmembers
from pathlib import Path

import pytest

from keras_gpukit import rules
from keras_gpukit.cli.report import PAGES
from keras_gpukit.rules import RULES
from keras_gpukit.rules.gains import CHANGES
from keras_gpukit.rules.reference import SECTION, filled
from keras_gpukit.rules.rule import Measure


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


def test_the_readme_counts_the_rules():
    readme = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
    assert f"of about {round(len(RULES), -1)} checks" in readme


def test_the_reference_says_of_each_rule_what_its_class_says():
    page = filled(PAGES[0].read_text(encoding="utf-8"))
    sections = dict(SECTION.findall(page))
    assert [*sections] == [rule.code for rule in RULES]
    assert all(f"| [`{code}`](#{code}) |" in page for code in sections)  # a row of the tables
    assert "| Copies to the GPU take 59 % of each step |" in page  # an example, else the title
    assert "| GPU memory is nearly full |" in page
    assert "{{" not in page
    for rule in RULES:
        said = sections[rule.code].rpartition("**In a report.** ")[2]
        assert said.startswith(f"Needs {rule.requires}.")
        assert all(each in said for each in (*rule.charts, *rule.tried_by))
        assert all(f"(#{each.partition(': ')[0]})" in said for each in rule.supersedes)
    assert "*A step waits … ms for its batch*; *A stall comes every … steps*" in page
    assert "*… % of the machine's memory is in use*" in sections["host-out-of-memory"]
    # Thresholds are those of the code: of a rule's class, of its module, or of another one.
    assert "each of them takes 2 times as long" in sections["dominant-layer"]
    assert "**Threshold.** Under 2 ms." in sections["tiny-steps"]
    assert "32 MiB in the process, or 16 MiB on a device" in sections["memory-grows"]
    with pytest.raises(LookupError):
        filled("## tiny-steps\n\nUnder {{ NO_SUCH_THRESHOLD ms }}\n")


def test_the_reference_has_a_row_for_each_known_fault():
    [row] = filled("<!-- known faults -->").splitlines()[2:3]
    assert row.startswith("| Keras >=3.5,<3.16 | starts the workers before on_epoch_begin")
    assert "[keras#23283](https://github.com/keras-team/keras/issues/23283)" in row
    assert row.endswith("reads what `on_epoch_begin` sets. |")
