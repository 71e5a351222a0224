"""Runs logged to MLflow, Weights & Biases and OpenTelemetry."""

import json
import subprocess
import sys
import threading
from importlib.util import find_spec
from pathlib import Path

import pytest
from helpers.processes import environment, wait_for
from helpers.recorded_runs import SUMMARY, run_lines

from keras_gpukit.saved_runs import exporting
from keras_gpukit.saved_runs.exporting import check_log_to, start_logging
from keras_gpukit.saved_runs.exporting.exporter import Exporter, MLflowRun, figures_of
from keras_gpukit.saved_runs.writing import Record

CASE = Path(__file__).parent / "cases" / "logged_elsewhere.py"
CODES = ", ".join(each.code for each in SUMMARY.findings)
FIGURES = {
    "gpukit/run/input/stall_percent": 40.0,
    "gpukit/run/step/time_ms": 25.0,
    "gpukit/run/step/examples_per_s": 1280.0,
    "gpukit/run/memory/GPU:0/peak_bytes": 5 * 2**30,
}


@pytest.fixture(scope="module")
def logged(tmp_path_factory):
    folder = tmp_path_factory.mktemp("logged")
    places = {"MLFLOW_TRACKING_URI": f"sqlite:///{folder}/mlflow.db", "WANDB_MODE": "offline"}
    done = subprocess.run(
        [sys.executable, str(CASE), str(folder)],
        cwd=folder,
        env=environment(**places),
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    assert "keras_gpukit" not in done.stderr  # nothing failed
    return json.loads((folder / "results.json").read_text(encoding="utf-8"))


# The services themselves; in `make test`, the points and what fails are shown by the tests below.
@pytest.mark.long
@pytest.mark.heavy
def test_mlflow_gets_a_run_of_its_own_or_the_users(logged):
    of_user, of_fit = logged["mlflow"]  # the newest first
    for run in (of_user, of_fit):
        assert run["status"] == "FINISHED"
        assert [path.rpartition("/")[2] for path in run["files"]] == ["summary.json", "verdict.md"]
    assert of_fit["tags"]["gpukit.findings"] == ", ".join(logged["fit"]["codes"])
    whole = of_fit["metrics"]["gpukit/run/input/stall_percent"]
    assert whole == pytest.approx(logged["fit"]["stall_percent"])
    assert of_user["metrics"].items() >= FIGURES.items()
    assert of_user["tags"]["gpukit.findings"] == CODES
    assert "decode (train.py:12)" in of_user["tags"]["gpukit.verdict"]
    saving = SUMMARY.findings[0].saving
    assert of_user["metrics"][f"gpukit/finding/{SUMMARY.findings[0].code}/saving_low_s"] == (
        pytest.approx(saving.low_s)
    )
    assert of_user["stall"][-1] == [2400, pytest.approx(40.0)]
    assert "decode" in Path(of_user["verdict"]).read_text(encoding="utf-8")


@pytest.mark.long
@pytest.mark.heavy
def test_wandb_gets_a_run_of_its_own_or_the_users_which_stay_theirs(logged):
    of_fit, of_user = logged["wandb"]
    assert of_fit["exit_code"] == [0]
    assert of_fit["summary"]["gpukit/findings"] == ", ".join(logged["fit"]["codes"])
    assert of_fit["rows"][-1]["gpukit/step"] == 80
    assert of_user["summary"].items() >= FIGURES.items()
    assert of_user["summary"]["gpukit/findings"] == CODES
    assert of_user["artifacts"] == [["summary.json", "verdict.md"]]
    # The user's rows and steps are as without it; the next one also has our figures.
    assert [(row["_step"], row["loss"]) for row in of_user["rows"]] == [(5, 1), (6, 0.5), (7, 0.25)]
    assert of_user["rows"][1]["gpukit/input/stall_percent"] == pytest.approx(40.0)
    assert of_user["rows"][1]["gpukit/step"] == 2400
    assert logged["still_open"]


@pytest.mark.long
@pytest.mark.heavy
def test_opentelemetry_gets_metrics_while_the_run_lasts_and_a_span_with_the_findings(logged):
    during = logged["metrics"]["during"]
    assert during["keras_gpukit.input.stall"] == pytest.approx(0.4)
    assert during["keras_gpukit.memory.peak"] == 5 * 2**30
    assert 0.5 <= during["hw.gpu.utilization 0"] <= 0.61
    assert during["hw.gpu.memory.usage 1"] == 20 * 2**30
    assert during["hw.gpu.memory.limit 1"] == 80 * 2**30
    assert logged["metrics"]["after"] == [{}, {}]
    of_fit, of_recorded, of_user = logged["spans"]
    assert of_fit["parent_id"] is None
    assert of_recorded["parent_id"] == of_user["context"]["span_id"]
    assert of_recorded["name"] == "keras_gpukit.fit"
    assert of_recorded["attributes"]["keras_gpukit.input.stall"] == 0.4
    assert of_recorded["status"]["status_code"] == "UNSET"
    events = [event["attributes"] for event in of_recorded["events"]]
    assert [event["keras_gpukit.finding.code"] for event in events] == CODES.split(", ")
    assert events[0]["keras_gpukit.finding.title"] == SUMMARY.findings[0].title
    assert events[0]["keras_gpukit.finding.saving_low_s"] == SUMMARY.findings[0].saving.low_s


class Listed(Exporter):
    """Keeps what it is asked to log."""

    def __init__(self):
        super().__init__()
        self.points = []
        self.end = None

    def log_point(self, summary, time_s, step):
        self.points.append((step, figures_of(summary)))

    def log_end(self, summary, time_s, step):
        self.end = summary


def test_points_are_means_and_ten_seconds_apart():
    listed = Listed()
    for line in run_lines():
        listed.write_records([Record(*line)])
    assert [step for step, _ in listed.points] == [40, 440, 840, 1240, 1640, 2040, 2400]
    assert listed.end == SUMMARY
    # The seventh window's steps took five times as long; means are over all steps.
    assert listed.points[1][1]["gpukit/step/time_ms"] == pytest.approx(25 * 14 / 10)
    assert listed.points[1][1]["gpukit/memory/GPU:0/peak_bytes"] == 5 * 2**30


def test_a_service_that_fails_is_named_once(monkeypatch, caplog):
    def refuses(self, run_id):
        raise ConnectionError("the server is gone")

    monkeypatch.setattr(MLflowRun, "__init__", refuses)
    thread = start_logging("mlflow")
    thread.close()
    (warning,) = caplog.messages
    assert "Logging to MLflow failed (ConnectionError: the server is gone)" in warning
    assert "Training continues" in warning


def test_a_server_that_hangs_is_waited_for_once(monkeypatch, caplog):
    answers = threading.Event()

    def hangs(self, run_id):
        assert answers.wait(60)

    monkeypatch.setattr(MLflowRun, "__init__", hangs)
    monkeypatch.setattr(MLflowRun, "close", lambda self: None)
    monkeypatch.setattr(exporting, "CLOSE_WITHIN_S", 0.01)
    thread = start_logging("mlflow")
    thread.close()
    assert start_logging("mlflow") is None
    assert "not done after" in caplog.messages[0]
    assert "an earlier run is still being sent" in caplog.messages[1]
    answers.set()
    wait_for(lambda: not thread.is_late)
    again = start_logging("mlflow")
    assert again is not None
    again.close()


def test_names_are_checked_and_a_missing_package_names_its_extra(monkeypatch):
    with pytest.raises(ValueError, match=r"'mlflow', 'wandb', 'otel', .* Received: log_to='tb'"):
        check_log_to("tb")
    with pytest.raises(ValueError, match=r"log_to=\[\['otel'\]\]"):
        check_log_to([["otel"]])
    with pytest.raises(TypeError, match="log_to=7"):
        check_log_to(7)
    monkeypatch.setattr(exporting, "find_spec", lambda name: find_spec("json"))
    assert check_log_to(["otel", "mlflow", "otel"]) == ("otel", "mlflow")
    assert check_log_to("wandb") == ("wandb",)
    monkeypatch.setattr(exporting, "find_spec", lambda name: None)
    with pytest.raises(ImportError, match=r'pip install ".*\[wandb\]"'):
        check_log_to(["wandb"])
