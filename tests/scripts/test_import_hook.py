"""Acting right after an import, without a framework."""

import importlib
import sys
from functools import partial

import pytest
from helpers.stopped_clock import StoppedClock

from keras_gpukit.scripts import import_hook
from keras_gpukit.scripts.import_hook import ImportHook


@pytest.fixture
def packages(tmp_path, monkeypatch):
    """Two packages, the outer one importing the inner one, and the list that they append to."""
    events: list[str] = []
    clock = StoppedClock.of(monkeypatch, import_hook)
    monkeypatch.setattr(sys, "gpukit_test_takes", clock.takes(4), raising=False)
    monkeypatch.setattr(sys, "gpukit_test_events", events, raising=False)
    monkeypatch.syspath_prepend(str(tmp_path))
    for name, source in (
        ("gpukit_test_inner", "import sys; sys.gpukit_test_takes()"),
        ("gpukit_test_outer", "import gpukit_test_inner"),
    ):
        (tmp_path / name).mkdir()
        append = "import sys; sys.gpukit_test_events.append"
        (tmp_path / name / "__init__.py").write_text(
            f"{append}('{name} begins')\n{source}\n{append}('{name} ends')\n"
        )
        (tmp_path / name / "part.py").touch()
    yield events
    for name in ("inner", "inner.part", "outer", "outer.part"):
        sys.modules.pop(f"gpukit_test_{name}", None)


def hook(events):
    finders = tuple(sys.meta_path)

    def note(name):
        under_way = made.is_under_way("gpukit_test_outer")
        events.append(f"{name} imported, outer under way: {under_way}")

    names = ("inner", "outer")
    made = ImportHook({f"gpukit_test_{name}": partial(note, name) for name in names})
    made.install()
    return finders, made


def test_it_acts_when_a_module_is_complete_and_leaves_nothing_behind(packages):
    finders, made = hook(packages)
    assert packages == []  # nothing is imported by it
    outer = importlib.import_module("gpukit_test_outer.part") and sys.modules["gpukit_test_outer"]
    begins = [f"gpukit_test_{name}" for name in ("outer begins", "inner begins", "inner ends")]
    ends = "gpukit_test_outer ends", "outer imported, outer under way: False"
    assert packages == [*begins, "inner imported, outer under way: True", *ends]
    assert tuple(sys.meta_path) == finders
    assert made.spent_s == 4  # the inner import counts once
    assert "exec_module" not in vars(outer.__loader__)
    importlib.reload(outer)
    assert packages[6:] == ["gpukit_test_outer begins", "gpukit_test_outer ends"]


def test_a_module_that_failed_is_awaited_again(packages, tmp_path):
    finders, _ = hook(packages)
    source = tmp_path / "gpukit_test_inner" / "__init__.py"
    whole = source.read_text()
    source.write_text("raise ImportError('half installed')")
    for _ in range(2):
        with pytest.raises(ImportError, match="half installed"):
            importlib.import_module("gpukit_test_inner")
    assert packages == []
    source.write_text(whole + "# so that its size differs")
    importlib.import_module("gpukit_test_outer")
    assert "inner imported, outer under way: True" in packages
    assert tuple(sys.meta_path) == finders


def test_of_two_hooks_the_later_one_acts(packages):
    finders, _ = hook(packages)
    hook(packages)
    importlib.import_module("gpukit_test_inner")
    imported = [each for each in packages if "imported" in each]
    assert imported == ["inner imported, outer under way: False"]
    sys.meta_path[:] = finders
