"""The notebook in a real kernel: it runs from top to bottom, and shows runs while they go on."""

import os
import re
import sys
from pathlib import Path
from types import SimpleNamespace

import nbformat
import pytest
from helpers.processes import ROOT
from nbclient import NotebookClient

from keras_gpukit import load_report

NOTEBOOK = ROOT / "examples" / "slow_training.ipynb"


class Watched(NotebookClient):
    """Runs a notebook, and keeps each content that replaced another one in a cell's output."""

    replaced: dict[str, list[str]]

    def process_message(self, msg, cell, cell_index):
        if msg["msg_type"] == "update_display_data":
            shown = msg["content"]["data"]["text/plain"]
            self.replaced.setdefault(cell["id"], []).append(shown)
        return super().process_message(msg, cell, cell_index)


def text_of(cell) -> str:
    """The words of a cell's output."""
    return " ".join(
        each.get("text") or each["data"].get("text/plain", "") for each in cell["outputs"]
    )


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    """The cells by their ids after a run, and the contents that were replaced in each."""
    folder = tmp_path_factory.mktemp("notebook")
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    client = Watched(notebook, timeout=300, resources={"metadata": {"path": str(folder)}})
    client.replaced = {}
    with pytest.MonkeyPatch.context() as patch:
        commands = Path(sys.executable).parent
        patch.setenv("PATH", f"{commands}{os.pathsep}{os.environ['PATH']}")
        client.execute()
    cells = {cell["id"]: cell for cell in notebook.cells}
    runs = load_report(folder / "logs").runs
    return SimpleNamespace(cells=cells, replaced=client.replaced, runs=runs)


def test_it_is_saved_without_outputs():
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    nbformat.validate(notebook)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert len(code) > 5
    assert [cell.id for cell in code if cell.outputs or cell.execution_count] == []


# In `make test`, test_progress.py shows the live view, test_docs_code.py the code of the guides.
@pytest.mark.long
@pytest.mark.heavy
def test_a_run_is_shown_while_it_goes_on_then_its_verdict(ran):
    *shown, last = ran.replaced["slow"]
    assert len(shown) > 2
    assert shown[0].startswith("keras-gpukit: ")
    assert re.search(
        r"training, at step \d+ in epoch \d+ of 10\ninput .+ of the steps' time, .+ per step, ",
        "".join(shown),
    )
    assert re.search(r"^So far: .+\n", shown[-1], re.MULTILINE)
    assert last == ""
    output = text_of(ran.cells["slow"])
    assert "keras-gpukit: " not in output
    assert "Verdict" in output
    assert f"keras_gpukit.load_report({str(Path('logs', 'slow'))!r})" in output
    [slow] = [each for each in ran.runs if each.name == "slow"]
    [waits] = [each for each in slow.summary.findings if each.code == "input-bound"]
    assert re.search(r"load \(cell \d+, line 11\)", waits.title)
    assert re.match(r"load is defined at cell \d+, line 1", waits.defined)


@pytest.mark.long
@pytest.mark.heavy
def test_the_gain_is_said_and_the_report_is_in_the_output(ran):
    assert re.search(r"[\d.]+× the examples", text_of(ran.cells["gain"]))
    assert re.search(r"step time [\d.]+ ms → [\d.]+ ms", text_of(ran.cells["compare"]))
    [output] = ran.cells["report"]["outputs"]
    assert output["data"]["text/html"].startswith("<iframe srcdoc=")
    assert re.match(r"fast: .+\nslow: .+\Z", output["data"]["text/plain"])
