"""One run in every place that shows it: the same finding, the same seconds, the same words."""

from __future__ import annotations

import html
import io
import json
import re
from dataclasses import replace

import pytest
from helpers.recorded_runs import SUMMARY, run_lines, write_lines
from rich.console import Console

from keras_gpukit.cli.main import main
from keras_gpukit.records.codec import from_dict
from keras_gpukit.records.finding import Saving
from keras_gpukit.records.pipeline import ContentionRecord
from keras_gpukit.records.steps import PipelineStartRecord
from keras_gpukit.records.tuning import Round
from keras_gpukit.reports.console import print_summary
from keras_gpukit.reports.diagnosis import conclusions
from keras_gpukit.reports.phrases import saved
from keras_gpukit.reports.text import markdown
from keras_gpukit.rules import judge
from keras_gpukit.rules.savings import of_rates
from keras_gpukit.tensorboard_plugin.report_pages import ReportPages
from keras_gpukit.tensorboard_plugin.run_folders import find_run_folders
from keras_gpukit.tuning.diagnose import conclude

# On a CPU: of 64 s steps waited 24 s, and worked 36 s of which input may cost 18 s at most.
PLANTED = replace(
    SUMMARY,
    environment=replace(SUMMARY.environment, gpus=()),
    input=replace(
        SUMMARY.input,
        contention=ContentionRecord(0.0, 0.9),
        pipeline_start=PipelineStartRecord(4, 0.25),
    ),
)
BUSY = "The machine was busy: other processes used 50 % of the cores."
PLANTED = replace(PLANTED, verdict=replace(judge(PLANTED), context=BUSY))
FIRST = PLANTED.findings[0]
SAVED = "1.6× to 3.5× faster (saves 24 to 45.6 of 64 s)"
INPUT = "input 39 % of the run: 38 % within steps, 1.6 % until each epoch's first batch"


@pytest.fixture(scope="module")
def shown(tmp_path_factory):
    """The run in each of its outputs, as plain text."""
    logs = tmp_path_factory.mktemp("logs")
    write_lines(logs, run_lines(summary=PLANTED))
    panel = io.StringIO()
    print_summary(PLANTED, Console(file=panel, width=80), details=True)
    page, plain = logs / "page.html", logs / "report.json"
    assert main(["report", str(logs), "--out", str(page)]) == 0
    assert main(["report", str(logs), "--json", "--out", str(plain)]) == 0
    (folder,) = find_run_folders({"": logs}).folders.values()
    return {
        "panel": panel.getvalue().replace("│", " "),
        "report": _text(page.read_text(encoding="utf-8")),
        "tab": _text(ReportPages().page(folder, {})),
        "TensorBoard's text": markdown(PLANTED),
        "JSON": plain.read_text(encoding="utf-8"),
    }


def _text(page: str) -> str:
    without_scripts = re.sub(r"<(script|style).*?</\1>", " ", page, flags=re.DOTALL)
    return html.unescape(re.sub(r"<[^>]*>", " ", without_scripts))


@pytest.mark.parametrize("output", ["panel", "report", "tab", "TensorBoard's text"])
def test_each_output_has_the_same_finding_and_the_same_saving(shown, output):
    text = " ".join(shown[output].split())
    assert FIRST.title in text
    assert SAVED in text
    assert BUSY in text


@pytest.mark.parametrize("output", ["panel", "TensorBoard's text"])
def test_waits_for_first_batches_count_as_input_apart_and_together(shown, output):
    assert INPUT in " ".join(shown[output].split())


@pytest.mark.parametrize("output", ["report", "tab"])
def test_the_page_has_the_same_shares_of_input(shown, output):
    assert "input, of the run 39 % of the run, until each epoch's first batch 1.6 %" in " ".join(
        shown[output].split()
    )


def test_the_json_has_the_seconds_that_the_others_are_made_of(shown):
    (run,) = json.loads(shown["JSON"])["runs"]
    written = run["summary"]["verdict"]["findings"][0]
    assert (written["code"], written["title"]) == (FIRST.code, FIRST.title)
    assert saved(from_dict(written["saving"], Saving)) == SAVED
    assert run["summary"]["verdict"]["context"] == BUSY


def test_diagnose_speaks_of_the_same_run_in_the_same_seconds():
    # Steps of 60 s, of which 24 s are waits: without them, 60 / 36 as many batches a second.
    measured = conclude([Round(data_only=30.0, actual=30.0, compute_only=50.0)] * 6)
    ratio, *rest = conclusions(measured)
    assert ratio.startswith("Without input, steps are 1.67× faster (1.67 to 1.67)")
    assert rest == []
    result = conclusions(replace(measured, saving=of_rates(PLANTED, measured.ceiling_interval)))
    assert result[1] == ("1.6× faster (saves about 24 of 64 s).")
