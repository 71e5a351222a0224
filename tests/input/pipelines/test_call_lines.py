"""The line of user code that adds a stage, which the report shows with its change."""

from __future__ import annotations

import textwrap

import pytest

from keras_gpukit.input.pipelines.places import call_line
from keras_gpukit.records.pipeline import CallLine


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
    found = call_line(str(script), passed, 4 if passed == "<lambda>" else 1)
    assert found == (None if call is None else CallLine(textwrap.dedent(line), len(call)))


def test_code_without_a_file_has_no_line():
    assert call_line("<stdin>", "load", 1) is None
