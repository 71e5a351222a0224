"""Writers to other services: their base class, and those to MLflow and Weights & Biases."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Sequence
from typing import Any

import msgspec

from keras_gpukit.errors import GPUKitError
from keras_gpukit.records import names
from keras_gpukit.records.run import RunSummary
from keras_gpukit.reports.run_words import headline_of
from keras_gpukit.reports.text import markdown
from keras_gpukit.saved_runs.folding import RunFold
from keras_gpukit.saved_runs.writing import Record, Writer

POINT_EVERY_S = 10.0
"""Minimum seconds between two points of a figure. Our choice: 360 points an hour, where each may be
a request to a server."""
STEP = "gpukit/step"


class Exporter(Writer):
    """Makes a point of all windows of steps since the last one, and passes on the summary."""

    def __init__(self) -> None:
        self.began_s: float | None = None
        self._since_point = RunFold()
        self._point_s = -math.inf

    def log_point(self, summary: RunSummary, time_s: float, step: int) -> None:
        """Logs the figures of the steps since the last point: speed, input and memory only."""
        raise NotImplementedError

    def log_end(self, summary: RunSummary, time_s: float, step: int) -> None:
        """Logs the summary of the run, with its findings."""
        raise NotImplementedError

    def write_records(self, records: Sequence[Record], /) -> None:
        """Logs a point if one is due, and the summary if it is among the records."""
        for time_s, step, kind, record in records:
            self.began_s = self.began_s or time_s
            if kind == "memory" or (kind == "steps" and record.phase == "fit"):
                self._since_point.add_record(kind, record, time_s, step)
            elif kind == "summary":
                self._end_point(time_s, step or 0)
                self.log_end(record, time_s, step or 0)
        last_s, last_step = records[-1][:2]
        if last_s - self._point_s >= POINT_EVERY_S:
            self._end_point(last_s, last_step or 0)

    def _end_point(self, time_s: float, step: int) -> None:
        if self._since_point.steps.readings:
            summary, self._since_point = self._since_point.summary(), RunFold()
            self._point_s = time_s
            self.log_point(summary, time_s, step)


def figures_of(summary: RunSummary, prefix: str = "gpukit") -> dict[str, float]:
    """Returns input stall, step time, examples per second and peak memory, as far as known.

    Each has the name of its TensorBoard tag, after the prefix.
    """
    stall, step_time_s = summary.input_stall_fraction, summary.step_time_s
    figures = {
        names.INPUT_STALL: None if stall is None else 100 * stall,
        names.STEP_TIME: None if step_time_s is None else 1e3 * step_time_s,
        names.EXAMPLE_RATE: summary.examples_per_s,
    }
    for memory in summary.allocators:
        figures[names.memory_tag(memory.device, "peak_bytes")] = memory.peak_bytes
    return {f"{prefix}/{tag}": value for tag, value in figures.items() if value is not None}


def figures_of_run(summary: RunSummary) -> dict[str, float]:
    """Returns the figures of a whole run, and what each finding's cause costs, in seconds."""
    figures = figures_of(summary, "gpukit/run")
    for finding in summary.verdict.findings:
        if finding.saving is not None:
            saving = f"gpukit/finding/{finding.code}/saving"
            figures.setdefault(f"{saving}_low_s", finding.saving.low_s)
            if finding.saving.high_s is not None:
                figures.setdefault(f"{saving}_high_s", finding.saving.high_s)
    return figures


def texts_of(summary: RunSummary) -> dict[str, str]:
    """Returns the verdict in a line, and the codes of the findings, the most important first."""
    codes = ", ".join(finding.code for finding in summary.verdict.findings) or "none"
    return {"verdict": headline_of(summary).text, "findings": codes}


def files_of(summary: RunSummary) -> dict[str, str]:
    """Returns the run as files by name: for people, and for programs."""
    as_json = msgspec.json.encode(summary).decode()
    return {"verdict.md": markdown(summary), "summary.json": as_json}


class MLflowRun(Exporter):
    """Logs to the run that the user has started; otherwise starts one of its own, and ends it."""

    def __init__(self, run_id: str | None) -> None:
        import mlflow

        super().__init__()
        self._mlflow = mlflow
        self._own = run_id is None
        # The active run belongs to the thread: the user may start another one in the meantime.
        self._run_id = run_id or mlflow.start_run().info.run_id
        self._client = mlflow.MlflowClient()
        self._status = "FAILED"

    @staticmethod
    def active() -> str | None:
        """Returns the user's run: started on this thread, or named by the environment."""
        mlflow = sys.modules.get("mlflow")
        run = mlflow.active_run() if mlflow else None
        return run.info.run_id if run else os.environ.get("MLFLOW_RUN_ID")

    def log_point(self, summary: RunSummary, time_s: float, step: int) -> None:
        """Logs a point of each metric."""
        self._log(figures_of(summary), time_s, step)

    def log_end(self, summary: RunSummary, time_s: float, step: int) -> None:
        """Logs the figures of the run as metrics, the findings as tags, and both as artifacts."""
        tags = {f"gpukit.{name}": text for name, text in texts_of(summary).items()}
        self._log(figures_of_run(summary), time_s, step, tags)
        folder = f"gpukit/fit_to_step_{step}"  # of several fits in one run, each has its own
        for name, text in files_of(summary).items():
            self._client.log_text(self._run_id, text, f"{folder}/{name}")
        self._status = "FINISHED" if summary.ending == "completed" else "FAILED"

    def close(self) -> None:
        """Ends a run of its own."""
        if self._own:
            self._mlflow.end_run(self._status)

    def _log(
        self,
        figures: dict[str, float],
        time_s: float,
        step: int,
        tags: dict[str, str] | None = None,
    ) -> None:
        from mlflow.entities import Metric, RunTag

        self._client.log_batch(
            self._run_id,
            metrics=[Metric(*item, round(1e3 * time_s), step) for item in figures.items()],
            tags=[RunTag(*item) for item in (tags or {}).items()],
        )


class WandbRun(Exporter):
    """Logs to the run that the user has started; otherwise starts one of its own, and ends it.

    In the user's run, points wait for the next row that the user logs: a row of their own would
    count up its steps, and W&B drops what the user then logs to an earlier one.
    """

    def __init__(self, run: Any) -> None:
        super().__init__()
        self._own = run is None
        self._run = run or _new_run()
        self._run.define_metric(STEP, hidden=True, summary="none")
        self._run.define_metric("gpukit/*", step_metric=STEP, summary="none")
        self._exit_code = 1

    @staticmethod
    def active() -> Any:
        """Returns the user's run; None without one."""
        return getattr(sys.modules.get("wandb"), "run", None)

    def log_point(self, summary: RunSummary, time_s: float, step: int) -> None:
        """Logs a point of each figure, with the global step as its x axis."""
        self._run.log({STEP: step, **figures_of(summary)}, commit=self._own)

    def log_end(self, summary: RunSummary, time_s: float, step: int) -> None:
        """Adds the figures of the run and its findings to the summary, and both as an artifact."""
        import wandb

        texts = {f"gpukit/{name}": text for name, text in texts_of(summary).items()}
        self._run.summary.update({**texts, **figures_of_run(summary)})
        artifact = wandb.Artifact(f"gpukit-{self._run.id}", type="gpukit")
        for name, text in files_of(summary).items():
            with artifact.new_file(name, encoding="utf-8") as file:
                file.write(text)
        self._run.log_artifact(artifact)
        self._exit_code = 0 if summary.ending == "completed" else 1

    def close(self) -> None:
        """Ends a run of its own."""
        if self._own:
            self._run.finish(exit_code=self._exit_code)


def _new_run() -> Any:
    """Starts a run that is not the process's global one, which the user may still start."""
    import wandb

    # Without this, `init` may ask for an account on this thread, and wait for an answer.
    if wandb.setup().settings.mode in ("online", "shared", "run") and not wandb.login(prompt=False):
        raise GPUKitError("no account is known: run `wandb login`, or set WANDB_MODE=offline")
    return wandb.init(reinit="create_new", settings={"console": "off"})
