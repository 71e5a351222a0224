"""One run in every place that shows it: the same finding, the same seconds, the same words."""

import html
import json
import re
from dataclasses import replace

import msgspec
import pytest
from helpers.recorded_runs import BEGAN_S, SUMMARY, run_lines, write_lines
from helpers.screens import panel

from keras_gpukit import records
from keras_gpukit.cli.main import main
from keras_gpukit.reports.evidence import saved
from keras_gpukit.reports.phrases import input_share, time_spent
from keras_gpukit.reports.rates import conclusions
from keras_gpukit.reports.run_words import headline_of
from keras_gpukit.reports.text import markdown
from keras_gpukit.reports.units import percentage
from keras_gpukit.rules import judge, judge_run
from keras_gpukit.rules.comparing.compare import compare_runs
from keras_gpukit.rules.savings import of_rates
from keras_gpukit.saved_runs.log_folder import load_report
from keras_gpukit.tensorboard_plugin.run_folders import ReportPages, find_run_folders
from keras_gpukit.tuning.diagnose import conclude

# On a CPU: of 64 s steps waited 24 s, and worked 36 s of which input may cost 18 s at most.
PLANTED = replace(
    SUMMARY,
    environment=replace(SUMMARY.environment, gpus=()),
    input=replace(
        SUMMARY.input,
        contention=records.ContentionRecord(0.0, 0.9),
        pipeline_start=records.PipelineStartRecord(4, 0.25),
    ),
)
BUSY = "The machine was busy: other processes used 50 % of the cores."
PLANTED = replace(PLANTED, verdict=replace(judge(PLANTED), context=BUSY))
FIRST = PLANTED.findings[0]
COMPUTES = records.TimeBreakdown(64.0, 0.0, 60.0, 1.0, 1.0, 1.5, 0.0, 0.5)
HEALTHY = replace(SUMMARY.input, wait_s=0.0, stall_fraction=0.0, breakdown=COMPUTES)
REFUTED = records.CaptureRecord("a", "steady", "steady", 40, 8, 0.0, 0.2, 0.01, path="a")
REFUTED = replace(REFUTED, stall_fraction=0.2, live_stall_fraction=0.4)
ADAPT = records.LineTime(
    "train.py:31", "<module>", "TextVectorization.adapt", "text.adapt(rows)", 250.0
)
SCRIPT = records.ScriptRecord(
    400.0, 9.0, 30.0, (records.Calls("fit", "train.py:45", 1, 61.0),), (ADAPT,), ()
)
HUNG = records.Hang(BEGAN_S, 40, "waiting for input", "input", (), 12.0, "load (train.py:31)")
RUNS = {
    "waits": PLANTED,
    "is healthy": judge_run(replace(SUMMARY, operations=None, input=HEALTHY)),
    "hangs": judge_run(replace(SUMMARY, hangs=(HUNG,))),
    "is corrected": judge_run(replace(SUMMARY, captures=records.ProfilerRecord((REFUTED,)))),
    "was killed": None,
    "of a script": SUMMARY,
}
"""Summaries of recorded runs, by what the run does; None of one that left no summary."""
TITLE = "250 of 400 s passed before fit, in text.adapt(rows) (train.py:31)"
SAVED = "1.6× to 3.5× faster (saves 24 to 45.6 of 64 s)"


def write_script(logs):
    """Writes the run of a script that spent most of its time before `fit`."""
    write_lines(logs, run_lines())
    (logs / "gpukit" / "script.json").write_bytes(msgspec.json.encode(SCRIPT))


def outputs(logs, summary):
    """A recorded run in each of its outputs, as plain text."""
    page, plain = logs / "page.html", logs / "report.json"
    assert main(["report", str(logs), "--out", str(page)]) == 0
    assert main(["report", str(logs), "--json", "--out", str(plain)]) == 0
    (folder,) = find_run_folders({"": logs}).folders.values()
    return {
        "panel": panel(summary, details=True).replace("│", " "),
        "report": _text(page.read_text(encoding="utf-8")),
        "tab": _text(ReportPages().page(folder, {})),
        "TensorBoard's text": markdown(summary),
        "JSON": plain.read_text(encoding="utf-8"),
    }


def _text(page: str) -> str:
    without_scripts = re.sub(r"<(script|style).*?</\1>", " ", page, flags=re.DOTALL)
    return html.unescape(re.sub(r"<[^>]*>", " ", without_scripts))


@pytest.mark.parametrize("what", RUNS)
def test_each_output_of_a_run_has_the_same_figures(tmp_path, what):
    if what == "of a script":
        write_script(tmp_path)
    else:
        write_lines(tmp_path, run_lines(summary=RUNS[what]))
    (run,) = load_report(tmp_path).runs
    shown = outputs(tmp_path, run.summary)
    (written,) = json.loads(shown.pop("JSON"))["runs"]
    assert [each["title"] for each in written["summary"]["verdict"]["findings"]] == [
        each.title for each in run.summary.findings
    ]
    expected = [headline_of(run.summary).text, *filter(None, [time_spent(run.summary)])]
    if what == "of a script":
        assert expected[0] == TITLE
    if what == "waits":
        expected += [FIRST.title, SAVED, BUSY]
        first = written["summary"]["verdict"]["findings"][0]
        assert first["code"] == FIRST.code
        assert saved(records.from_dict(first["saving"], records.Saving)) == SAVED
        assert written["summary"]["verdict"]["context"] == BUSY
    share = input_share(run.summary)
    if share is not None:
        figure = compare_runs([run], [run]).figure("input")
        assert percentage(figure.a) == share.removeprefix("about ")
    for output, text in shown.items():
        words = " ".join(text.split())
        said = "input, of the run {}" if output in ("report", "tab") else "input {} of the run"
        for part in (*expected, *([said.format(share)] if share else [])):
            assert part in words, output


def test_a_folder_above_gives_the_same_verdicts(tmp_path):
    for name in ("before/train-1", "after"):
        write_script(tmp_path / name)
    found = [[each.title for each in run.summary.findings] for run in load_report(tmp_path).runs]
    assert [TITLE in titles for titles in found] == [True, True]


def test_diagnose_speaks_of_the_same_run_in_the_same_seconds():
    # Steps of 60 s, of which 24 s are waits: without them, 60 / 36 as many batches a second.
    measured = conclude([records.Round(data_only=30.0, actual=30.0, compute_only=50.0)] * 6)
    ratio, *rest = conclusions(measured)
    assert ratio.startswith("Without input, steps are 1.67× faster (1.67 to 1.67)")
    assert rest == []
    result = conclusions(replace(measured, saving=of_rates(PLANTED, measured.ceiling_interval)))
    assert result[1] == ("1.6× faster (saves about 24 of 64 s).")
