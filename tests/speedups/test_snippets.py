"""Changed calls of user code: the same call with other arguments."""

from __future__ import annotations

import pytest

from keras_gpukit.records.finding import Change
from keras_gpukit.speedups.snippets import CallPlace, changed_call


@pytest.mark.parametrize(
    ("source", "line", "before", "after"),
    [
        ("model.compile('adam')", 1, "model.compile('adam')", "model.compile('adam', jit=True)"),
        ("model.compile()", 1, "model.compile()", "model.compile(jit=True)"),
        ("a.compile(x, jit=False)", 1, "a.compile(x, jit=False)", "a.compile(x, jit=True)"),
        (
            "if x:\n    model.compile(\n        'adam',\n        'mse',\n    )",
            3,
            "model.compile(\n    'adam',\n    'mse',\n)",
            "model.compile(\n    'adam',\n    'mse', jit=True)",
        ),
    ],
)
def test_an_argument_is_added_or_replaced(tmp_path, source, line, before, after):
    script = tmp_path / "train.py"
    script.write_text(f"{source}\n")
    found = changed_call(CallPlace(str(script), line), "compile", {"jit": True})
    assert found == Change(before, after, f"train.py:{line}")


def test_a_call_that_cannot_be_read_has_dots():
    expected = Change("fit(...)", "fit(..., batch_size=64)")
    assert changed_call(None, "fit", {"batch_size": 64}) == expected
    assert changed_call(CallPlace("/nowhere.py", 3), "fit", {"batch_size": 64}) == expected
