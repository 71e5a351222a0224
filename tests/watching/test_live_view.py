"""The panel that a notebook shows of a run in progress, without a notebook."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace

import pytest

from keras_gpukit.records import Progress, ThroughputRecord
from keras_gpukit.reports.terminal import is_notebook
from keras_gpukit.saved_runs.folding.run_fold import RunFold
from keras_gpukit.watching import live_view
from keras_gpukit.watching.live_view import LiveView

FOLD = RunFold()
FOLD.add("throughput", ThroughputRecord("fit", 40, 38, 0.02, 640.0), 1.0, 40)
FOLD.add("progress", Progress("fit", "steps", 40, 2, 3), 1.0, 40)


class Session:
    """Stands in for a session, and for what it records."""

    def __init__(self) -> None:
        self.output, self.tasks = self, []

    def read(self, part):
        return part(FOLD)

    def every_second(self, name, task):
        self.tasks.append(task)


class ZMQInteractiveShell:
    """The kernel of Jupyter."""


class Shell(ZMQInteractiveShell):
    """Colab's."""


class TerminalInteractiveShell:
    """IPython in a terminal."""


@pytest.fixture
def shown(monkeypatch):
    """IPython as it is loaded in a kernel; gives the texts that are shown, or raises one."""
    texts = []

    def show(bundle, *, raw):
        assert raw
        if texts and isinstance(texts[-1], Exception):
            raise texts[-1]
        texts.append(bundle["text/plain"])

    display = ModuleType("IPython.display")
    display.DisplayHandle = lambda: SimpleNamespace(display=show, update=show)
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=Shell))
    monkeypatch.setitem(sys.modules, "IPython.display", display)
    return texts


@pytest.mark.parametrize(
    ("shell", "is_one"),
    [(ZMQInteractiveShell(), True), (Shell(), True), (TerminalInteractiveShell(), False)],
)
def test_only_a_kernel_is_a_notebook(shell, is_one, monkeypatch):
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))
    assert is_notebook() == is_one
    monkeypatch.delitem(sys.modules, "IPython")
    assert not is_notebook()


def test_it_shows_the_run_and_goes_when_that_ends(shown):
    session = Session()
    view = LiveView(session)
    [update] = session.tasks
    update()
    view.close()
    first, running, last = shown
    assert "starting" in first
    assert "training, at step 40 in epoch 2 of 3" in running
    assert "20 ms per step" in running
    assert last == ""


def test_verdicts_become_rare_as_the_run_goes_on(shown, monkeypatch):
    clock, made = SimpleNamespace(now_s=0.0), []
    monkeypatch.setattr(live_view, "judge_run", lambda summary: made.append(clock.now_s) or summary)
    view = LiveView(Session(), lambda: clock.now_s)
    for second in range(1, 101):
        clock.now_s = float(second)
        view.update()
    assert made == [5, 8, 12, 18, 27, 41, 62, 93]
    assert len(shown) == 101


def test_a_display_that_fails_is_dropped_without_a_word(shown, caplog):
    view = LiveView(Session())
    shown.append(RuntimeError("no such comm"))
    for _ in range(3):
        view.update()
    view.close()
    assert len(shown) == 2
    assert not caplog.records
