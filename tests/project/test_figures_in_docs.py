"""Figures in the documentation have a results file, and are the same wherever they are shown."""

import itertools
import re

import pytest
from helpers.docs_code import PAGES, ROOT

RESULTS = ROOT / "benchmarks" / "results"
TEXT = {page: page.read_text(encoding="utf-8") for page in PAGES}


@pytest.mark.parametrize("file", sorted(each.name for each in RESULTS.glob("*.json")))
def test_each_results_file_is_cited(file):
    assert any(file in text for text in TEXT.values())


def test_each_results_file_and_benchmark_that_is_cited_exists():
    found = (re.findall(r"benchmarks/[\w./]+\.(?:json|py)", text) for text in TEXT.values())
    cited = set(itertools.chain(*found))
    assert len(cited) > 20
    assert [path for path in sorted(cited) if not (ROOT / path).exists()] == []


def test_the_demo_s_figures_are_the_same_wherever_they_are_shown():
    row = re.compile(r"^(?:examples/s|step time)  .*", re.M)
    shown = {tuple(rows) for text in TEXT.values() if (rows := row.findall(text))}
    assert [len(rows) for rows in shown] == [2]
