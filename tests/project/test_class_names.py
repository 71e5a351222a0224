"""Each class has a name of its own in the package: one name, one thing."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "keras_gpukit"


def test_no_two_classes_have_one_name():
    places = defaultdict(set)
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                places[node.name].add(path.relative_to(PACKAGE).as_posix())
    assert {name: sorted(files) for name, files in places.items() if len(files) > 1} == {}
