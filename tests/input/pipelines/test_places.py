"""Places of user code: in notebooks by the cell's number, and the line that adds a stage."""

import sys
import textwrap
from types import SimpleNamespace

import pytest

from keras_gpukit.input.pipelines.places import call_line, name_and_location
from keras_gpukit.records import CallLine

IN_JUPYTER = "/tmp/ipykernel_4711/1234567890.py"


def located(filename: str) -> tuple[str | None, str | None]:
    """A function and a lambda that a file or cell defines in its third line."""
    names: dict = {}
    exec(compile("\n\ndef load(x): return lambda: x", filename, "exec"), names)
    assert name_and_location(names["load"])[0] == "load"
    return name_and_location(names["load"](0))[0], name_and_location(names["load"])[1]


@pytest.fixture
def jupyter(monkeypatch):
    """IPython as it is loaded in a notebook, with one cell."""

    def format_code_name(name):
        return ("Cell", "In[3]") if name == IN_JUPYTER else None

    shell = SimpleNamespace(compile=SimpleNamespace(format_code_name=format_code_name))
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))
    return shell


def test_a_cell_has_its_number_if_it_is_known(jupyter):
    assert located(IN_JUPYTER) == ("lambda at cell 3, line 3", "cell 3, line 3")
    assert located("/home/me/train.py") == ("lambda at train.py:3", "train.py:3")
    other = "/tmp/ipykernel_4711/99.py"
    assert located(other)[1] == "a notebook's cell, line 3"
    del jupyter.compile.format_code_name  # as in an old IPython
    assert located(IN_JUPYTER)[1] == "a notebook's cell, line 3"


def test_without_ipython_the_name_of_the_cells_file_says_what_it_can():
    assert located("<ipython-input-12-0a1b2c>")[1] == "cell 12, line 3"
    assert located("/tmp/ipython-input-12-123456.py")[1] == "cell 12, line 3"
    assert located(IN_JUPYTER)[1] == "a notebook's cell, line 3"


@pytest.mark.parametrize(
    ("line", "passed", "call"),
    [
        ("ds = ds.map(load).batch(8)", "load", "ds = ds.map(load)"),
        ("ds = (ds.map(map_func=own.load))", "load", "ds = (ds.map(map_func=own.load)"),
        ("é = ds.filter(load)", "load", "é = ds.filter(load)"),
        ("ds = ds.map(lambda x: x + 1)", "<lambda>", "ds = ds.map(lambda x: x + 1)"),
        ("ds = ds.map(other)", "load", None),
        ("ds = ds.map(load).map(load)", "load", None),  # which of them is unknown
        ("ds = ds.map(\n        load)", "load", None),
        ("%time ds = ds.map(load)", "load", None),
    ],
)
def test_the_line_that_passes_a_function_to_the_pipeline_is_found(tmp_path, line, passed, call):
    script = tmp_path / "train.py"
    script.write_text(f"def load(x):\n    return x\ndef data(ds, own):\n    {line}\n")
    found = call_line(str(script), passed, 4 if passed == "<lambda>" else 1, None)
    expected = CallLine(textwrap.dedent(line), len(call or ""), "train.py:4")
    assert found == (None if call is None else expected)


def test_code_without_a_file_has_no_line():
    assert call_line("<stdin>", "load", 1, None) is None


@pytest.mark.parametrize(
    ("at", "call"),
    [
        (4, CallLine(".map(load)", 10, "pipe.py:4")),
        (6, CallLine("other = ds.map(load)", 20, "pipe.py:6")),
        (7, CallLine("", 0, "pipe.py:7")),  # longer than a line
        (11, CallLine("", 0, "pipe.py:11")),  # it passes the function by another name
    ],
)
def test_of_several_lines_the_one_that_ran_is_known(tmp_path, at, call):
    script = tmp_path / "pipe.py"
    script.write_text(
        "from data import load\nds = (\n    files\n    .map(load)\n)\nother = ds.map(load)\n"
        "long = ds.map(\n    load,\n    4,\n)\nds = ds.map(wrapped)\n"
    )
    assert call_line(str(script), "load", 1, at) == call


def test_a_file_below_the_folder_of_the_start_has_its_path(monkeypatch):
    monkeypatch.setattr("keras_gpukit.input.pipelines.places.STARTED_IN", "/home/me")
    assert located("/home/me/src/data.py")[1] == "src/data.py:3"
    assert located("src/data.py")[1] == "src/data.py:3"
    assert located("/opt/lib/data.py")[1] == "data.py:3"
