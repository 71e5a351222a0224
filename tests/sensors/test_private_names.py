"""Private names of frameworks that measurements need."""

import re
from pathlib import Path

import pytest

from keras_gpukit.frameworks import private_names
from keras_gpukit.frameworks.private_names import NEEDED_FOR, missing_names


@pytest.fixture
def framework(tmp_path, monkeypatch):
    """A framework with one class, which has one private attribute."""
    source = "class Iterator:\n    def __init__(self):\n        self._dataset = None\n"
    (tmp_path / "gpukit_framework").mkdir()
    (tmp_path / "gpukit_framework" / "__init__.py").touch()
    (tmp_path / "gpukit_framework" / "ops.py").write_text(source)
    monkeypatch.syspath_prepend(tmp_path)


@pytest.mark.parametrize(
    ("name", "is_missing"),
    [
        ("gpukit_framework.ops:Iterator._dataset", False),
        ("gpukit_framework.ops:Iterator._resource", True),
        ("gpukit_framework.ops:Dataset._dataset", True),
        ("gpukit_framework.moved_ops:Iterator._dataset", True),
        ("no_gpukit_framework.ops:Iterator._dataset", True),
    ],
)
def test_a_name_is_looked_for_in_its_module(framework, monkeypatch, name, is_missing):
    monkeypatch.setitem(NEEDED_FOR, "a measurement", (name,))
    found = {each.measurement: each.names for each in missing_names()}
    assert found.get("a measurement") == ((name,) if is_missing else None)


def test_the_modules_that_are_imported_are_in_the_table():
    """Each private module of TensorFlow or Keras that the package imports is looked at."""
    source = "".join(file.read_text() for file in Path(private_names.__file__).parent.glob("*.py"))
    listed = {name.partition(":")[0] for names in NEEDED_FOR.values() for name in names}
    used = {
        f"{module}.{name}".rstrip(".")
        for module, names in re.findall(
            r"from ((?:tensorflow\.python|keras\.src)[\w.]*) import ([\w, ]+)", source
        )
        for name in names.split(", ")
    }
    assert len(used) > 15
    assert {each for each in used if not {each, each.rpartition(".")[0]} & listed} == set()
